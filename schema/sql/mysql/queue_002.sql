-- One statement, so that it happens as a whole.
ALTER TABLE {jobs}
  -- the lock of the latest attempt, also when lock_token has changed since
  ADD COLUMN attempt_token CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE' AFTER lock_token,
  -- what a handler said of its retry, for as long as the job waits for the decision: 'never', or a delay such as 5m0s
  ADD COLUMN wish VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE' AFTER lock_token,
  -- 1: an operator wants the worker to stop it
  ADD COLUMN stopping TINYINT NOT NULL DEFAULT 0 AFTER lock_token,
  -- where in its line: the jobs that a full group holds back, those that no limit holds back, those to be stopped
  ADD COLUMN part VARBINARY(255) AS (CASE line WHEN 'held' THEN throttle_group
    WHEN 'due' THEN IF(throttle_factor = 0, 'free', 'NONE') WHEN 'locked' THEN IF(stopping = 1, 'stop', 'NONE') ELSE 'NONE' END) STORED,
  DROP INDEX {jobs}$pick,
  ADD INDEX {jobs}$pick (line, part, job_type, priority, scheduled_run_time, id);
