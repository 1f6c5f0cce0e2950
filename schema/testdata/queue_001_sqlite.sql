-- The jobs of one queue. docs/schema.md explains every column and lists the queries that each index serves.
-- SQLite takes any value in any column, so the checks refuse what MySQL's types refuse of an application's insert.
CREATE TABLE IF NOT EXISTS shop_emails (
  id                 INTEGER PRIMARY KEY AUTOINCREMENT, -- without AUTOINCREMENT a purged id would be used again
  job_type           TEXT NOT NULL CHECK (length(CAST(job_type AS BLOB)) <= 64),
  job_data           TEXT NOT NULL DEFAULT 'NONE',
  job_key            TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))) CHECK (length(CAST(job_key AS BLOB)) <= 255),
  state              TEXT NOT NULL DEFAULT 'initial' CHECK (state IN ('initial','running','error','retry','final')),
  -- where the row stands for the queries that poll: only 'due' is in the range from which candidates are read
  line               TEXT NOT NULL DEFAULT 'new' CHECK (line IN ('new','due','later','held','locked','waiting','error','finished','failed')),
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
  error              TEXT NOT NULL DEFAULT 'NONE',
  result             TEXT NOT NULL DEFAULT 'NONE',
  create_time        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  update_time        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  live               INTEGER AS (iif(state = 'final', NULL, 1)) STORED,
  -- what only hipq writes must be whole, whoever inserts a row: one that is not would stop the worker that meets it
  CHECK (line <> 'new' OR state = 'initial'),
  CHECK ((state = 'final') = (line IN ('finished', 'failed'))),
  CHECK (line = 'new' OR timeout IS NOT NULL AND priority IS NOT NULL AND throttle_factor IS NOT NULL AND time_windows IS NOT NULL)
);
CREATE UNIQUE INDEX IF NOT EXISTS shop_emails$live ON shop_emails (job_type, job_key, live);
CREATE INDEX IF NOT EXISTS shop_emails$pick ON shop_emails (line, job_type, priority, scheduled_run_time, id);
CREATE INDEX IF NOT EXISTS shop_emails$wake ON shop_emails (wake_time) WHERE wake_time IS NOT NULL;
