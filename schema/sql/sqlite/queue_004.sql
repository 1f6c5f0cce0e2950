-- The table is made anew, for SQLite changes no constraint of one that is there.
CREATE TABLE {jobs}$new (
  id                 INTEGER PRIMARY KEY AUTOINCREMENT, -- without AUTOINCREMENT a purged id would be used again
  job_type           TEXT NOT NULL CHECK (length(CAST(job_type AS BLOB)) <= 64),
  job_data           TEXT NOT NULL DEFAULT 'NONE',
  job_key            TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))) CHECK (length(CAST(job_key AS BLOB)) <= 255),
  state              TEXT NOT NULL DEFAULT 'initial' CHECK (state IN ('initial','running','error','retry','final')),
  -- where the row stands for the queries that poll: only 'due' is in the range from which candidates are read
  line               TEXT NOT NULL DEFAULT 'new' CHECK (line IN ('new','due','later','held','locked','waiting','error','finished','failed','closed')),
  -- NULL in a row inserted by plain SQL until a tick takes it in: the job type's default
  timeout            INTEGER NULL CHECK (timeout IS NULL OR typeof(timeout) = 'integer' AND timeout BETWEEN 0 AND 4294967295),
  priority           INTEGER NULL CHECK (priority IS NULL OR typeof(priority) = 'integer' AND abs(priority) < 2147483648),
  throttle_factor    INTEGER NULL CHECK (throttle_factor IS NULL OR typeof(throttle_factor) = 'integer' AND throttle_factor BETWEEN 0 AND 4294967295),
  time_windows       TEXT NULL,
  throttle_group     TEXT NOT NULL DEFAULT 'NONE',
  shard_key          TEXT NOT NULL DEFAULT 'NONE',
  attempt            INTEGER NOT NULL DEFAULT 0,
  scheduled_run_time TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')
    CHECK (substr(strftime('%Y-%m-%d %H:%M:%S', scheduled_run_time), 1, 19) IS substr(scheduled_run_time, 1, 19) AND trim(substr(scheduled_run_time, 20), '.0123456789') = ''),
  -- when somebody must look at the row though nothing touches it: 'later' is promoted, 'waiting' times out; else NULL
  wake_time          TEXT NULL,
  -- when the current attempt began; before the first, when the job was added (of plain SQL: NULL), so that the row need not grow
  start_time         TEXT NULL,
  worker_id          TEXT NOT NULL DEFAULT 'NONE',
  lock_token         TEXT NOT NULL DEFAULT 'NONE',
  -- 1: an operator wants it to be stopped
  stopping           INTEGER NOT NULL DEFAULT 0,
  -- 1: the last attempt ended with its worker
  suspect            INTEGER NOT NULL DEFAULT 0,
  -- what a handler said of its retry, for as long as the job waits for the decision: 'never', or a delay such as 5m0s
  wish               TEXT NOT NULL DEFAULT 'NONE',
  -- 1: an answer says that the attempt has failed, and its handler runs on
  answered           INTEGER NOT NULL DEFAULT 0,
  -- the lock of the latest attempt, also when lock_token has changed since
  attempt_token      TEXT NOT NULL DEFAULT 'NONE',
  error              TEXT NOT NULL DEFAULT 'NONE',
  result             TEXT NOT NULL DEFAULT 'NONE',
  -- what the handler printed in an attempt that has no outcome in the activity yet
  output             TEXT NOT NULL DEFAULT 'NONE',
  -- the final job that this one repeats, and the latest that repeats this one; NULL: none
  retry_of           INTEGER NULL,
  retried_as         INTEGER NULL,
  create_time        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  update_time        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  live               INTEGER AS (iif(state = 'final', NULL, 1)) STORED,
  -- where in its line: the jobs that a full group holds back, those that run alone, those that no limit holds back, those to
  -- be stopped
  part               TEXT AS (CASE line WHEN 'held' THEN throttle_group
    WHEN 'due' THEN iif(throttle_factor = 0, iif(suspect = 1, 'suspect free', 'free'), iif(suspect = 1, 'suspect', 'NONE'))
    WHEN 'locked' THEN iif(stopping = 1, 'stop', 'NONE') ELSE 'NONE' END) VIRTUAL,
  -- of the default order: of another it is made anew after this
  run_rank           INTEGER AS (priority) VIRTUAL,
  -- what only hipq writes must be whole, whoever inserts a row: one that is not would stop the worker that meets it
  CHECK (line <> 'new' OR state = 'initial'),
  CHECK ((state = 'final') = (line IN ('finished', 'failed', 'closed'))),
  CHECK (line = 'new' OR timeout IS NOT NULL AND priority IS NOT NULL AND throttle_factor IS NOT NULL AND time_windows IS NOT NULL)
);

INSERT INTO {jobs}$new (id, job_type, job_data, job_key, state, line, timeout, priority, throttle_factor, time_windows, throttle_group,
  shard_key, attempt, scheduled_run_time, wake_time, start_time, worker_id, lock_token, stopping, wish, attempt_token, error, result,
  create_time, update_time)
SELECT id, job_type, job_data, job_key, state, line, timeout, priority, throttle_factor, time_windows, throttle_group,
  shard_key, attempt, scheduled_run_time, wake_time, start_time, worker_id, lock_token, stopping, wish, attempt_token, error, result,
  create_time, update_time
FROM {jobs} ORDER BY id;

-- No id is used again, also not that of a purged job.
DELETE FROM sqlite_sequence WHERE name = '{jobs}$new';
INSERT INTO sqlite_sequence (name, seq) SELECT '{jobs}$new', seq FROM sqlite_sequence WHERE name = '{jobs}';

DROP TABLE {jobs};
-- else a view of somebody's on the table, which is gone at this moment, would be in the way
PRAGMA legacy_alter_table = ON;
ALTER TABLE {jobs}$new RENAME TO {jobs};
PRAGMA legacy_alter_table = OFF;

CREATE UNIQUE INDEX {jobs}$live ON {jobs} (job_type, job_key, live);
CREATE INDEX {jobs}$pick ON {jobs} (line, part, job_type, run_rank, scheduled_run_time, id);
CREATE INDEX {jobs}$wake ON {jobs} (wake_time) WHERE wake_time IS NOT NULL;
