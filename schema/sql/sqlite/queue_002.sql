-- The lock of the latest attempt, also when lock_token has changed since.
ALTER TABLE {jobs} ADD COLUMN attempt_token TEXT NOT NULL DEFAULT 'NONE';
-- What a handler said of its retry, for as long as the job waits for the decision: 'never', or a delay such as 5m0s.
ALTER TABLE {jobs} ADD COLUMN wish TEXT NOT NULL DEFAULT 'NONE';
-- 1: an operator wants the worker to stop it.
ALTER TABLE {jobs} ADD COLUMN stopping INTEGER NOT NULL DEFAULT 0;
-- Where in its line: the jobs that a full group holds back, those that no limit holds back, those to be stopped.
ALTER TABLE {jobs} ADD COLUMN part TEXT AS (CASE line WHEN 'held' THEN throttle_group
  WHEN 'due' THEN iif(throttle_factor = 0, 'free', 'NONE') WHEN 'locked' THEN iif(stopping = 1, 'stop', 'NONE') ELSE 'NONE' END) VIRTUAL;
DROP INDEX IF EXISTS {jobs}$pick;
CREATE INDEX {jobs}$pick ON {jobs} (line, part, job_type, priority, scheduled_run_time, id);
