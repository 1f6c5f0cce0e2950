-- The jobs of one queue. The layout for MySQL and docs/reference/schema.md explain the columns. Applications write with their own
-- SQLite libraries; STRICT needs 3.37.
CREATE TABLE IF NOT EXISTS {jobs} (
  id                 INTEGER PRIMARY KEY AUTOINCREMENT, -- without AUTOINCREMENT a purged id would be reused
  job_type           TEXT NOT NULL,
  -- the default also stands for NULL, which object mappers send
  job_data           TEXT NOT NULL ON CONFLICT REPLACE DEFAULT 'NONE',
  job_key            TEXT NOT NULL ON CONFLICT REPLACE DEFAULT (lower(hex(randomblob(16)))),
  status             TEXT NOT NULL DEFAULT 'submitted',
  timeout            INTEGER NULL,
  priority           INTEGER NULL,
  throttle_factor    INTEGER NULL,
  time_windows       TEXT NULL,
  throttle_group     TEXT NOT NULL DEFAULT 'NONE',
  shard_key          TEXT NOT NULL ON CONFLICT REPLACE DEFAULT 'NONE',
  shard              INTEGER NOT NULL DEFAULT 1000,
  attempt            INTEGER NOT NULL DEFAULT 0,
  uncounted          INTEGER NOT NULL DEFAULT 0,
  interrupted        INTEGER NOT NULL DEFAULT 0,
  losses             INTEGER NOT NULL DEFAULT 0,
  scheduled_run_time TEXT NOT NULL ON CONFLICT REPLACE DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  wake_time          TEXT NULL,
  asked_time         TEXT NULL,
  start_time         TEXT NULL,
  worker_id          TEXT NOT NULL DEFAULT 'NONE',
  lock_token         TEXT NOT NULL DEFAULT 'NONE',
  attempt_token      TEXT NOT NULL DEFAULT 'NONE',
  stopping           INTEGER NOT NULL DEFAULT 0,
  retry_override     TEXT NOT NULL DEFAULT 'NONE',
  progress           INTEGER NOT NULL DEFAULT 0,
  progress_note      TEXT NOT NULL DEFAULT 'NONE',
  progress_attempt   INTEGER NOT NULL DEFAULT 0,
  progress_time      TEXT NULL,
  error              TEXT NOT NULL DEFAULT 'NONE',
  result             TEXT NOT NULL DEFAULT 'NONE',
  output             TEXT NOT NULL DEFAULT 'NONE',
  retry_of           INTEGER NULL,
  retried_as         INTEGER NULL,
  create_time        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  update_time        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  state              TEXT AS (CASE WHEN status IN ('finished', 'failed', 'closed') THEN 'final'
    WHEN status IN ('running', 'answered', 'awaiting') THEN 'running'
    WHEN status IN ('deciding', 'undecided') THEN 'error' WHEN attempt > 0 THEN 'retry' ELSE 'initial' END) VIRTUAL,
  live               INTEGER AS (iif(status IN ('finished', 'failed', 'closed'), NULL, 1)) STORED,
  rank_sign          INTEGER DEFAULT {sign} NOT NULL, -- hipq init rewrites this default in the stored text
  part               TEXT AS (CASE WHEN status = 'throttled' AND asked_time IS NOT NULL THEN 'line'
    WHEN status IN ('throttled', 'awaiting') THEN throttle_group
    WHEN status = 'available' THEN iif(throttle_factor = 0, 'free', 'NONE')
    WHEN stopping = 1 AND status IN ('locked', 'running', 'answered', 'deciding') THEN 'stop' ELSE 'NONE' END) VIRTUAL,
  run_rank           INTEGER AS (priority * rank_sign) VIRTUAL,

  CONSTRAINT {jobs}$status CHECK (status IN ('submitted', 'scheduled', 'available', 'throttled', 'locked', 'running', 'answered', 'deciding',
    'awaiting', 'undecided', 'finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$wake CHECK ((wake_time IS NOT NULL) = (status IN ('scheduled', 'awaiting'))),
  CONSTRAINT {jobs}$timeout CHECK (timeout IS NOT NULL AND timeout BETWEEN 1 AND 316224000 OR timeout IS NULL AND status = 'submitted' OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$priority CHECK (priority IS NOT NULL AND priority BETWEEN -2147483647 AND 2147483647 OR priority IS NULL AND status = 'submitted' OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$factor CHECK (throttle_factor IS NOT NULL AND throttle_factor BETWEEN 0 AND 2147483647 OR throttle_factor IS NULL AND status = 'submitted' OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$windows CHECK (time_windows IS NOT NULL AND length(CAST(time_windows AS BLOB)) <= 2048 OR time_windows IS NULL AND status = 'submitted' OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$group CHECK (status <> 'throttled' OR throttle_group <> ''),
  CONSTRAINT {jobs}$size CHECK (length(CAST(job_data AS BLOB)) BETWEEN 1 AND 1048576 OR status IN ('finished', 'failed', 'closed')),
  -- a time that hipq can parse: some SQLite versions accept 24:00 and 30 February
  CONSTRAINT {jobs}$run_time CHECK (scheduled_run_time >= '1970' AND (scheduled_run_time < '9999' OR status <> 'submitted')
    AND scheduled_run_time GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-2][0-9]:[0-5][0-9]:[0-5][0-9]*'
    AND date(julianday(substr(scheduled_run_time, 1, 10))) IS substr(scheduled_run_time, 1, 10) AND substr(scheduled_run_time, 12, 2) < '24'
    AND (length(CAST(scheduled_run_time AS BLOB)) = 19 OR substr(scheduled_run_time, 20, 1) = '.'
      AND length(CAST(scheduled_run_time AS BLOB)) BETWEEN 21 AND 29 AND substr(scheduled_run_time, 21) NOT GLOB '*[^0-9]*')),
  -- What MySQL's types ensure. The highest possible id would leave none for the next job.
  CONSTRAINT {jobs}$id CHECK (id BETWEEN 1 AND 4611686018427387903),
  CONSTRAINT {jobs}$job_type CHECK (length(CAST(job_type AS BLOB)) <= 255),
  CONSTRAINT {jobs}$job_key CHECK (length(CAST(job_key AS BLOB)) <= 255),
  CONSTRAINT {jobs}$shard_key CHECK (length(CAST(shard_key AS BLOB)) <= 255)
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS {jobs}$live ON {jobs} (job_type, job_key, live);
CREATE INDEX IF NOT EXISTS {jobs}$claim ON {jobs} (status, shard, part, job_type, {order}, attempt);
CREATE INDEX IF NOT EXISTS {jobs}$wake ON {jobs} (wake_time) WHERE wake_time IS NOT NULL;
