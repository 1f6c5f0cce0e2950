-- The jobs of one queue. docs/schema.md explains every column and lists the queries that each index serves. Applications write with
-- libraries of their own, of which 3.37 is the oldest that knows STRICT.
CREATE TABLE IF NOT EXISTS {jobs} (
  id                 INTEGER PRIMARY KEY AUTOINCREMENT, -- without AUTOINCREMENT a purged id would be used again
  job_type           TEXT NOT NULL,
  job_data           TEXT NOT NULL DEFAULT 'NONE',
  job_key            TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
  -- where the job stands, and what the queries that poll go by: only 'available' is in the range from which candidates are read. closed:
  -- final with an error, and nothing is to be done about it any more
  status             TEXT NOT NULL DEFAULT 'submitted',
  -- NULL in a row inserted by plain SQL until a tick takes it in: the job type's default
  timeout            INTEGER NULL,
  priority           INTEGER NULL,
  throttle_factor    INTEGER NULL,
  time_windows       TEXT NULL,
  throttle_group     TEXT NOT NULL DEFAULT 'NONE',
  shard_key          TEXT NOT NULL DEFAULT 'NONE',
  -- which of the queue's shards it is in, by 1000 times the division and the shard: 8003 is shard 3 of 8, 1000 the only one
  shard              INTEGER NOT NULL DEFAULT 1000,
  attempt            INTEGER NOT NULL DEFAULT 0,
  -- how many attempts don't count for the retry policy: they ended because their worker was told to stop
  interrupts         INTEGER NOT NULL DEFAULT 0,
  -- how many of the latest attempts in a row ended with their worker
  losses             INTEGER NOT NULL DEFAULT 0,
  scheduled_run_time TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  -- when somebody must look at the row though nothing touches it: 'scheduled' becomes available, 'awaiting' times out; else NULL
  wake_time          TEXT NULL,
  -- when the current attempt began; before the first, when the job was added (of plain SQL: NULL), so that the row need not grow
  start_time         TEXT NULL,
  worker_id          TEXT NOT NULL DEFAULT 'NONE',
  lock_token         TEXT NOT NULL DEFAULT 'NONE',
  -- the lock of the latest attempt, also when lock_token has changed since
  attempt_token      TEXT NOT NULL DEFAULT 'NONE',
  -- 1: an operator wants it to be stopped
  stopping           INTEGER NOT NULL DEFAULT 0,
  -- what a handler said of its retry, for as long as the job waits for the decision: 'never', or a delay such as 5m0s
  retry_override     TEXT NOT NULL DEFAULT 'NONE',
  -- how far an attempt has come, as its handler says: of the one that progress_attempt names, 0 is that none has said anything.
  -- An attempt that begins needn't write these, for it has another number
  progress           INTEGER NOT NULL DEFAULT 0,
  progress_note      TEXT NOT NULL DEFAULT 'NONE',
  progress_attempt   INTEGER NOT NULL DEFAULT 0,
  progress_time      TEXT NULL,
  error              TEXT NOT NULL DEFAULT 'NONE',
  result             TEXT NOT NULL DEFAULT 'NONE',
  -- what the handler printed in an attempt that has no outcome in the activity yet
  output             TEXT NOT NULL DEFAULT 'NONE',
  -- the final job that this one repeats, and the latest that repeats this one; NULL: none
  retry_of           INTEGER NULL,
  retried_as         INTEGER NULL,
  create_time        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  update_time        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  -- how far it has come: what the status says for who reads
  state              TEXT AS (CASE WHEN status IN ('finished', 'failed', 'closed') THEN 'final'
    WHEN status IN ('running', 'answered', 'awaiting') THEN 'running'
    WHEN status IN ('deciding', 'undecided') THEN 'error' WHEN attempt > 0 THEN 'retry' ELSE 'initial' END) VIRTUAL,
  live               INTEGER AS (iif(status IN ('finished', 'failed', 'closed'), NULL, 1)) STORED,
  -- where among those of its status: the jobs that a full group holds back, those that no limit holds back, those to be stopped
  part               TEXT AS (CASE WHEN status = 'throttled' THEN throttle_group
    WHEN status = 'available' THEN iif(throttle_factor = 0, 'free', 'NONE')
    WHEN stopping = 1 AND status IN ('locked', 'running', 'answered', 'deciding') THEN 'stop' ELSE 'NONE' END) VIRTUAL,
  -- One index and one ORDER BY serve every order of a queue: this is the priority, its negative where the highest comes first, or
  -- 0 where the schedule does. hipq init makes it anew when the order changes.
  run_rank           INTEGER AS (priority) VIRTUAL,

  -- A row that hipq could not work with is refused, if an application writes it; one that is final may keep what made it fail. The
  -- names tell the application what is wrong. hipq's own connections don't look.
  CONSTRAINT {jobs}$status CHECK (status IN ('submitted', 'scheduled', 'available', 'throttled', 'locked', 'running', 'answered', 'deciding',
    'awaiting', 'undecided', 'finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$wake CHECK ((wake_time IS NOT NULL) = (status IN ('scheduled', 'awaiting'))),
  CONSTRAINT {jobs}$timeout CHECK (timeout IS NOT NULL AND timeout BETWEEN 1 AND 316224000 OR timeout IS NULL AND status = 'submitted' OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$priority CHECK (priority IS NOT NULL AND priority BETWEEN -2147483647 AND 2147483647 OR priority IS NULL AND status = 'submitted' OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$factor CHECK (throttle_factor IS NOT NULL AND throttle_factor BETWEEN 0 AND 2147483647 OR throttle_factor IS NULL AND status = 'submitted' OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$windows CHECK (time_windows IS NOT NULL OR status IN ('submitted', 'finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$group CHECK (status <> 'throttled' OR throttle_group <> ''),
  CONSTRAINT {jobs}$size CHECK (length(CAST(job_data AS BLOB)) <= 1048576 OR status IN ('finished', 'failed', 'closed')),
  -- a time that hipq can read: versions of SQLite take 24:00 for one, and 30 February
  CONSTRAINT {jobs}$run_time CHECK (scheduled_run_time >= '1970'
    AND scheduled_run_time GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-2][0-9]:[0-5][0-9]:[0-5][0-9]*'
    AND date(julianday(substr(scheduled_run_time, 1, 10))) IS substr(scheduled_run_time, 1, 10) AND substr(scheduled_run_time, 12, 2) < '24'
    AND (length(CAST(scheduled_run_time AS BLOB)) = 19 OR substr(scheduled_run_time, 20, 1) = '.'
      AND length(CAST(scheduled_run_time AS BLOB)) BETWEEN 21 AND 29 AND substr(scheduled_run_time, 21) NOT GLOB '*[^0-9]*')),
  -- What MySQL's types see to. The highest id of all would leave none for the next.
  CONSTRAINT {jobs}$id CHECK (id BETWEEN 1 AND 4611686018427387903),
  CONSTRAINT {jobs}$job_type CHECK (length(CAST(job_type AS BLOB)) <= 64),
  CONSTRAINT {jobs}$job_key CHECK (length(CAST(job_key AS BLOB)) <= 255)
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS {jobs}$live ON {jobs} (job_type, job_key, live);
CREATE INDEX IF NOT EXISTS {jobs}$claim ON {jobs} (status, shard, part, job_type, {order});
CREATE INDEX IF NOT EXISTS {jobs}$wake ON {jobs} (wake_time) WHERE wake_time IS NOT NULL;
