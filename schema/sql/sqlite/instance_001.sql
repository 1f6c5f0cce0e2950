-- The append-only log of every transition of a worker or a job.
CREATE TABLE IF NOT EXISTS {activity} (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  at        TEXT NOT NULL,
  kind      TEXT NOT NULL,
  state     TEXT NOT NULL,
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
) STRICT;
CREATE INDEX IF NOT EXISTS {activity}$at ON {activity} (at);
CREATE INDEX IF NOT EXISTS {activity}$job ON {activity} (job_id, queue);

-- One row an execution of the worker. lock_until is the expiry of all of its locks: one write renews them.
CREATE TABLE IF NOT EXISTS {workers} (
  id         TEXT NOT NULL,
  host       TEXT NOT NULL,
  pid        INTEGER NOT NULL,
  state      TEXT NOT NULL,
  slots      INTEGER NOT NULL DEFAULT 0,
  start_time TEXT NOT NULL,
  heartbeat  TEXT NOT NULL,
  lock_until TEXT NOT NULL,
  end_time   TEXT NULL,
  -- how many slots it has in each lane that has a limit, as JSON
  lanes      TEXT NOT NULL DEFAULT 'NONE',
  -- how many attempts it has started; NULL of one that has not ended in order
  started    INTEGER NULL,
  -- as on MySQL; nobody registers by procedures here
  by_sql     INTEGER NOT NULL DEFAULT 0,
  -- which process of its host it is, for the others there: one that is gone is dead, whatever its lock says; 'NONE': nobody can tell
  process    TEXT NOT NULL DEFAULT 'NONE',
  -- 0: it starts nothing more, so the slots that come free are for others
  accepting  INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (id)
) STRICT;
CREATE INDEX IF NOT EXISTS {workers}$state ON {workers} (state, lock_until);
CREATE INDEX IF NOT EXISTS {workers}$start ON {workers} (start_time);

-- The registered queues, with what commands without their config need of them.
CREATE TABLE IF NOT EXISTS {queues} (
  queue          TEXT NOT NULL,
  throttle_limit INTEGER NOT NULL DEFAULT 0,
  keep_finished  INTEGER NOT NULL DEFAULT 1209600,
  keep_failed    INTEGER NOT NULL DEFAULT 7776000,
  paused         INTEGER NOT NULL DEFAULT 0,
  -- what else the config says of the queue, as JSON
  settings       TEXT NOT NULL DEFAULT 'NONE',
  -- how its jobs are divided into shards, as a number: hipq init alone changes it
  division       INTEGER NOT NULL DEFAULT 1,
  create_time    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  PRIMARY KEY (queue)
) STRICT;

-- The shards of a queue: who starts jobs of a queue with a limit, groups or a rate takes turns with the others at its shard alone.
CREATE TABLE IF NOT EXISTS {shards} (
  queue         TEXT NOT NULL,
  -- 1000 times the division, and behind that which shard it is: 8003 is shard 3 of 8
  shard         INTEGER NOT NULL,
  -- written by every round that takes turns: the one row that makes them do so
  turn          INTEGER NOT NULL DEFAULT 0,
  -- when jobs of a queue with a rate were started lately, as JSON
  starts        TEXT NOT NULL DEFAULT 'NONE',
  -- what it may use of the queue's limit, and of the rate's starts. Unused where there is one shard
  share         INTEGER NOT NULL DEFAULT 0,
  rate_share    INTEGER NOT NULL DEFAULT 0,
  -- when these were divided last, as all times here in microseconds since 1970
  divide_time   INTEGER NOT NULL DEFAULT 0,
  -- the first jobs in order of some types that have no room in the limit, as JSON: nothing behind the first of them starts
  heads         TEXT NOT NULL DEFAULT 'NONE',
  -- since when nothing has started there for want of the limit or the rate
  wait_since    INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (queue, shard)
) STRICT;

-- The registered job types, with the defaults of their jobs.
CREATE TABLE IF NOT EXISTS {job_types} (
  queue           TEXT NOT NULL,
  job_type        TEXT NOT NULL,
  timeout         INTEGER NOT NULL DEFAULT 86400,
  priority        INTEGER NOT NULL DEFAULT 100,
  throttle_factor INTEGER NOT NULL DEFAULT 1,
  time_windows    TEXT NOT NULL DEFAULT 'NONE',
  -- as on MySQL; no procedure reads it here
  settings        TEXT NOT NULL DEFAULT 'NONE',
  create_time     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  PRIMARY KEY (queue, job_type)
) STRICT;

-- The hours that the monitor has aggregated.
CREATE TABLE IF NOT EXISTS {hours} (
  hour            TEXT NOT NULL,
  aggregated_time TEXT NOT NULL,
  PRIMARY KEY (hour)
) STRICT;

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
  wait_min_ms      INTEGER NOT NULL DEFAULT 0,
  wait_max_ms      INTEGER NOT NULL DEFAULT 0,
  -- percentiles, and how many times are how long in hipq's own form; NULL where nothing was counted
  wait_p50_ms      INTEGER NULL,
  wait_p95_ms      INTEGER NULL,
  wait_p99_ms      INTEGER NULL,
  wait_histogram   BLOB NULL,
  run_count        INTEGER NOT NULL DEFAULT 0,
  run_sum_ms       INTEGER NOT NULL DEFAULT 0,
  run_min_ms       INTEGER NOT NULL DEFAULT 0,
  run_max_ms       INTEGER NOT NULL DEFAULT 0,
  run_p50_ms       INTEGER NULL,
  run_p95_ms       INTEGER NULL,
  run_p99_ms       INTEGER NULL,
  run_histogram    BLOB NULL,
  -- the gauges, measured when the hour was aggregated; NULL where that was later (--at)
  backlog          INTEGER NULL,
  -- how many of it a full group holds back
  held             INTEGER NULL,
  oldest_due_ms    INTEGER NULL,
  -- what the jobs weigh that count against the queue's limit, and that limit
  throttle_used    INTEGER NULL,
  throttle_limit   INTEGER NULL,
  gauge_time       TEXT NULL,
  PRIMARY KEY (hour, queue, job_type)
) STRICT;

-- What cron has mailed of late, so that of all ticks one says it. hipq purge deletes what is over.
CREATE TABLE IF NOT EXISTS {notices} (
  notice    TEXT NOT NULL,
  said_time TEXT NOT NULL,
  PRIMARY KEY (notice)
) STRICT;

-- The recurring jobs: which of their slots have been seen to.
CREATE TABLE IF NOT EXISTS {schedules} (
  name        TEXT NOT NULL,
  -- when its slots are, with the zone
  spec        TEXT NOT NULL,
  queue       TEXT NOT NULL,
  job_type    TEXT NOT NULL,
  -- all slots up to this time are seen to; who writes another one has the slots between
  seen_until  TEXT NOT NULL,
  -- the first slot after that, or an earlier time where that is still to be found; NULL of one that is paused
  next_slot   TEXT NULL,
  paused      INTEGER NOT NULL DEFAULT 0,
  -- the last slot that has led to a job, which job, and when; NULL and 0 before the first
  last_slot   TEXT NULL,
  last_job_id INTEGER NOT NULL DEFAULT 0,
  last_time   TEXT NULL,
  -- the queue of that job, which may have been another then
  last_queue  TEXT NOT NULL DEFAULT 'NONE',
  -- the last slot that got no job although it was missed or due, and why
  left_slot   TEXT NULL,
  left_why    TEXT NOT NULL DEFAULT 'NONE',
  -- when it last began anew with another spec, which it had before, and how often in turn, each within an hour of the one before
  anew_time   TEXT NULL,
  former_spec TEXT NOT NULL DEFAULT 'NONE',
  anew_count  INTEGER NOT NULL DEFAULT 0,
  create_time TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  PRIMARY KEY (name)
) STRICT;
