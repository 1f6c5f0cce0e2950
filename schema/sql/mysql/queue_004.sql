-- Rows that the constraints below would refuse, for former layouts took more, and a server may be told not to look. What can't
-- be a job fails, with the reason.
UPDATE (SELECT id, CASE
    WHEN NOT {is_placed} THEN CONCAT('line ', line, ' does not go with state ', state)
    WHEN state = 'final' THEN NULL
    WHEN timeout NOT BETWEEN 1 AND 316224000 THEN CONCAT('timeout ', timeout, ' is not a number of seconds from 1 to 316224000')
    WHEN throttle_factor > 2147483647 THEN CONCAT('throttle_factor ', throttle_factor, ' is not from 0 to 2147483647')
    WHEN priority < -2147483647 THEN CONCAT('priority ', priority, ' is not from -2147483647 to 2147483647')
    WHEN line <> 'new' AND (timeout IS NULL OR priority IS NULL OR throttle_factor IS NULL OR time_windows IS NULL) THEN
      'timeout, priority, throttle_factor or time_windows is missing'
    WHEN attempt > 2147483647 THEN CONCAT('attempt ', attempt, ' is not from 0 to 2147483647')
    WHEN OCTET_LENGTH(job_data) > 1048576 THEN CONCAT('job_data has ', OCTET_LENGTH(job_data), ' bytes, allowed are 1048576')
    WHEN NOT {is_time scheduled_run_time} THEN CONCAT('scheduled_run_time ', scheduled_run_time, ' is no time since 1970')
  END AS flaw FROM {jobs} HAVING flaw IS NOT NULL) AS found
JOIN {jobs} AS j ON j.id = found.id
SET j.error = CONCAT('not a valid job, says layout 4: ', found.flaw), j.state = 'final', j.line = 'failed', j.wake_time = NULL,
  j.worker_id = 'NONE', j.lock_token = 'NONE', j.update_time = {now};

-- What only had to be written otherwise is.
UPDATE {jobs} SET
  scheduled_run_time = IF({is_time scheduled_run_time}, scheduled_run_time, {now}),
  start_time = IF({is_time start_time}, start_time, NULL),
  create_time = IF({is_time create_time}, create_time, {now}),
  update_time = IF({is_time update_time}, update_time, {now}),
  wake_time = CASE WHEN line NOT IN ('later', 'waiting') THEN NULL WHEN {is_time wake_time} THEN wake_time
    WHEN line = 'later' THEN scheduled_run_time ELSE {now} END,
  throttle_group = IF(throttle_group = '', 'NONE', throttle_group),
  stopping = stopping <> 0,
  attempt = LEAST(attempt, 2147483647)
WHERE NOT {is_time scheduled_run_time} OR NOT {is_time create_time} OR NOT {is_time update_time}
  OR start_time IS NOT NULL AND NOT {is_time start_time} OR wake_time IS NOT NULL AND NOT {is_time wake_time}
  OR (wake_time IS NOT NULL) <> (line IN ('later', 'waiting'))
  OR throttle_group = '' OR stopping NOT IN (0, 1) OR attempt > 2147483647;

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
  -- A row that hipq could not work with is refused, whoever writes it; one that is final may keep what made it fail. The names
  -- tell an application what is wrong. They are looked at with each write to a row, so what is usual stands first in them.
  ADD CONSTRAINT {jobs}$line CHECK {is_placed},
  ADD CONSTRAINT {jobs}$timeout CHECK (timeout IS NOT NULL AND timeout BETWEEN 1 AND 316224000 OR timeout IS NULL AND line = 'new' OR state = 'final'),
  ADD CONSTRAINT {jobs}$priority CHECK (priority IS NOT NULL AND priority >= -2147483647 OR priority IS NULL AND line = 'new' OR state = 'final'),
  ADD CONSTRAINT {jobs}$factor CHECK (throttle_factor IS NOT NULL AND throttle_factor <= 2147483647 OR throttle_factor IS NULL AND line = 'new' OR state = 'final'),
  ADD CONSTRAINT {jobs}$windows CHECK (time_windows IS NOT NULL OR line = 'new' OR state = 'final'),
  ADD CONSTRAINT {jobs}$group CHECK (line <> 'held' OR throttle_group <> ''),
  ADD CONSTRAINT {jobs}$size CHECK (OCTET_LENGTH(job_data) <= 1048576 OR state = 'final'),
  ADD CONSTRAINT {jobs}$attempt CHECK (attempt <= 2147483647),
  ADD CONSTRAINT {jobs}$run_time CHECK {is_time scheduled_run_time},
  ADD CONSTRAINT {jobs}$wake CHECK (wake_time IS NULL AND line NOT IN ('later', 'waiting') OR line IN ('later', 'waiting') AND {is_time wake_time}),
  ADD CONSTRAINT {jobs}$start CHECK (start_time IS NULL OR {is_time start_time}),
  ADD CONSTRAINT {jobs}$create CHECK {is_time create_time},
  ADD CONSTRAINT {jobs}$update CHECK {is_time update_time},
  ADD CONSTRAINT {jobs}$stopping CHECK (stopping IN (0, 1)),
  ADD CONSTRAINT {jobs}$suspect CHECK (suspect IN (0, 1));

-- Those that have failed are told of as others are.
INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key, error)
SELECT j.update_time, 'job', 'failed', '{queue}', j.id, j.job_type, j.job_key, j.error FROM {jobs} j
WHERE j.line = 'failed' AND j.error LIKE 'not a valid job, says layout 4: %'
  AND NOT EXISTS (SELECT 1 FROM {activity} a WHERE a.job_id = j.id AND a.queue = '{queue}' AND a.error = j.error);
