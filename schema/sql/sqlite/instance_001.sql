-- The append-only log of every transition of a worker or a job.
CREATE TABLE IF NOT EXISTS {activity} (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  at        TEXT NOT NULL,
  kind      TEXT NOT NULL CHECK (kind IN ('worker','job')),
  state     TEXT NOT NULL CHECK (state IN ('added','starting','finished','error','failed','cancelled')),
  queue     TEXT NOT NULL DEFAULT 'NONE',
  job_id    INTEGER NOT NULL DEFAULT 0,
  job_type  TEXT NOT NULL DEFAULT 'NONE',
  job_key   TEXT NOT NULL DEFAULT 'NONE',
  worker_id TEXT NOT NULL DEFAULT 'NONE',
  host      TEXT NOT NULL DEFAULT 'NONE',
  pid       INTEGER NOT NULL DEFAULT 0,
  attempt   INTEGER NOT NULL DEFAULT 0,
  wait_ms   INTEGER NOT NULL DEFAULT 0,
  run_ms    INTEGER NOT NULL DEFAULT 0,
  error     TEXT NOT NULL DEFAULT 'NONE',
  output    TEXT NOT NULL DEFAULT 'NONE'
);
CREATE INDEX IF NOT EXISTS {activity}$at ON {activity} (at);
CREATE INDEX IF NOT EXISTS {activity}$job ON {activity} (job_id, queue);

-- One row an execution of the worker. lock_until is the expiry of all of its locks: one write renews them.
CREATE TABLE IF NOT EXISTS {workers} (
  id         TEXT NOT NULL,
  host       TEXT NOT NULL,
  pid        INTEGER NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('working','finished','error')),
  slots      INTEGER NOT NULL DEFAULT 0,
  start_time TEXT NOT NULL,
  heartbeat  TEXT NOT NULL,
  lock_until TEXT NOT NULL,
  end_time   TEXT NULL,
  PRIMARY KEY (id)
);
CREATE INDEX IF NOT EXISTS {workers}$state ON {workers} (state, lock_until);
CREATE INDEX IF NOT EXISTS {workers}$start ON {workers} (start_time);

-- The registered queues, with what commands without their config need of them.
CREATE TABLE IF NOT EXISTS {queues} (
  queue          TEXT NOT NULL,
  throttle_limit INTEGER NOT NULL DEFAULT 0,
  keep_finished  INTEGER NOT NULL DEFAULT 1209600,
  keep_failed    INTEGER NOT NULL DEFAULT 7776000,
  paused         INTEGER NOT NULL DEFAULT 0,
  -- written by every round of a queue with a limit or a rate: the one row that makes them take turns
  turn           INTEGER NOT NULL DEFAULT 0,
  create_time    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  PRIMARY KEY (queue)
);

-- The registered job types, with the defaults of their jobs.
CREATE TABLE IF NOT EXISTS {job_types} (
  queue           TEXT NOT NULL,
  job_type        TEXT NOT NULL,
  timeout         INTEGER NOT NULL DEFAULT 86400,
  priority        INTEGER NOT NULL DEFAULT 100,
  throttle_factor INTEGER NOT NULL DEFAULT 1,
  time_windows    TEXT NOT NULL DEFAULT 'NONE',
  create_time     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  PRIMARY KEY (queue, job_type)
);

-- The hours that the monitor has taken.
CREATE TABLE IF NOT EXISTS {hours} (
  hour       TEXT NOT NULL,
  taken_time TEXT NOT NULL,
  PRIMARY KEY (hour)
);

-- What the monitor counted in an hour, by queue and job type; the workers under queue 'NONE'.
CREATE TABLE IF NOT EXISTS {metrics} (
  hour             TEXT NOT NULL,
  queue            TEXT NOT NULL,
  job_type         TEXT NOT NULL,
  added            INTEGER NOT NULL DEFAULT 0,
  started          INTEGER NOT NULL DEFAULT 0,
  finished         INTEGER NOT NULL DEFAULT 0,
  errors           INTEGER NOT NULL DEFAULT 0,
  failed           INTEGER NOT NULL DEFAULT 0,
  workers_started  INTEGER NOT NULL DEFAULT 0,
  workers_finished INTEGER NOT NULL DEFAULT 0,
  workers_died     INTEGER NOT NULL DEFAULT 0,
  wait_count       INTEGER NOT NULL DEFAULT 0,
  wait_sum_ms      INTEGER NOT NULL DEFAULT 0,
  wait_max_ms      INTEGER NOT NULL DEFAULT 0,
  run_count        INTEGER NOT NULL DEFAULT 0,
  run_sum_ms       INTEGER NOT NULL DEFAULT 0,
  run_max_ms       INTEGER NOT NULL DEFAULT 0,
  -- the gauges, measured when the hour was taken; NULL in an hour taken later (--at)
  backlog          INTEGER NULL,
  oldest_due_ms    INTEGER NULL,
  gauge_time       TEXT NULL,
  PRIMARY KEY (hour, queue, job_type)
);
