-- One statement, so that it happens as a whole. Before it, whoever migrates drops the constraints of former layouts, which
-- had no names of their own.
ALTER TABLE {jobs}
  -- closed: final with an error, and nothing is to be done about it any more
  MODIFY COLUMN line ENUM('new','due','later','held','locked','waiting','error','finished','failed','closed') CHARACTER SET ascii NOT NULL DEFAULT 'new',
  -- 1: the last attempt ended with its worker
  ADD COLUMN suspect TINYINT NOT NULL DEFAULT 0 AFTER stopping,
  -- where in its line: the jobs that a full group holds back, those that run alone, those that no limit holds back, those to
  -- be stopped
  MODIFY COLUMN part VARBINARY(255) AS (CASE line WHEN 'held' THEN throttle_group
    WHEN 'due' THEN IF(throttle_factor = 0, IF(suspect = 1, 'suspect free', 'free'), IF(suspect = 1, 'suspect', 'NONE'))
    WHEN 'locked' THEN IF(stopping = 1, 'stop', 'NONE') ELSE 'NONE' END) STORED,
  -- 1: an answer says that the attempt has failed, and its handler runs on
  ADD COLUMN answered TINYINT NOT NULL DEFAULT 0 AFTER wish,
  -- the final job that this one repeats, and the latest that repeats this one; NULL: none
  ADD COLUMN retry_of BIGINT NULL AFTER result,
  ADD COLUMN retried_as BIGINT NULL AFTER retry_of,
  -- what the handler printed in an attempt that has no outcome in the activity yet
  ADD COLUMN output MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE') AFTER result,
  -- what only hipq writes must be whole, whoever inserts a row: one that is not would stop the worker that meets it
  ADD CONSTRAINT {jobs}$new CHECK (line <> 'new' OR state = 'initial'),
  ADD CONSTRAINT {jobs}$final CHECK ((state = 'final') = (line IN ('finished', 'failed', 'closed'))),
  ADD CONSTRAINT {jobs}$whole CHECK (line = 'new' OR timeout IS NOT NULL AND priority IS NOT NULL AND throttle_factor IS NOT NULL AND time_windows IS NOT NULL),
  -- MySQL's servers may be told to take 0000-00-00, which is no time
  ADD CONSTRAINT {jobs}$time CHECK (scheduled_run_time >= '1970-01-01' AND MONTH(scheduled_run_time) > 0 AND DAYOFMONTH(scheduled_run_time) > 0);
