-- The layout for MySQL explains tables and columns.
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
  lanes      TEXT NOT NULL DEFAULT 'NONE',
  started    INTEGER NULL,
  by_sql     INTEGER NOT NULL DEFAULT 0,
  process    TEXT NOT NULL DEFAULT 'NONE',
  accepting  INTEGER NOT NULL DEFAULT 1,
  by_hand    INTEGER NOT NULL DEFAULT 0,
  serves     TEXT NOT NULL DEFAULT 'NONE',
  wants      INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (id)
) STRICT;
CREATE INDEX IF NOT EXISTS {workers}$state ON {workers} (state, lock_until);
CREATE INDEX IF NOT EXISTS {workers}$start ON {workers} (start_time);

CREATE TABLE IF NOT EXISTS {queues} (
  queue          TEXT NOT NULL,
  throttle_limit INTEGER NOT NULL DEFAULT 0,
  keep_finished  INTEGER NOT NULL DEFAULT 1209600,
  keep_failed    INTEGER NOT NULL DEFAULT 7776000,
  paused         INTEGER NOT NULL DEFAULT 0,
  settings       TEXT NOT NULL DEFAULT 'NONE',
  division       INTEGER NOT NULL DEFAULT 1,
  create_time    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  PRIMARY KEY (queue)
) STRICT;

CREATE TABLE IF NOT EXISTS {shards} (
  queue         TEXT NOT NULL,
  shard         INTEGER NOT NULL,
  turn          INTEGER NOT NULL DEFAULT 0,
  starts        TEXT NOT NULL DEFAULT 'NONE',
  share         INTEGER NOT NULL DEFAULT 0,
  rate_share    INTEGER NOT NULL DEFAULT 0,
  divide_time   INTEGER NOT NULL DEFAULT 0,
  awaiting      INTEGER NOT NULL DEFAULT 0,
  awaiting_time INTEGER NOT NULL DEFAULT 0,
  wait_since    INTEGER NOT NULL DEFAULT 0,
  wait_factor   INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (queue, shard)
) STRICT;

CREATE TABLE IF NOT EXISTS {job_types} (
  queue           TEXT NOT NULL,
  job_type        TEXT NOT NULL,
  timeout         INTEGER NOT NULL DEFAULT 86400,
  priority        INTEGER NOT NULL DEFAULT 100,
  throttle_factor INTEGER NOT NULL DEFAULT 1,
  time_windows    TEXT NOT NULL DEFAULT 'NONE',
  settings        TEXT NOT NULL DEFAULT 'NONE',
  create_time     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  PRIMARY KEY (queue, job_type)
) STRICT;

CREATE TABLE IF NOT EXISTS {hours} (
  hour            TEXT NOT NULL,
  aggregated_time TEXT NOT NULL,
  PRIMARY KEY (hour)
) STRICT;

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
  backlog          INTEGER NULL,
  held             INTEGER NULL,
  oldest_due_ms    INTEGER NULL,
  throttle_used    INTEGER NULL,
  throttle_limit   INTEGER NULL,
  gauge_time       TEXT NULL,
  PRIMARY KEY (hour, queue, job_type)
) STRICT;

CREATE TABLE IF NOT EXISTS {notices} (
  notice    TEXT NOT NULL,
  said_time TEXT NOT NULL,
  PRIMARY KEY (notice)
) STRICT;

CREATE TABLE IF NOT EXISTS {schedules} (
  name        TEXT NOT NULL,
  spec        TEXT NOT NULL,
  queue       TEXT NOT NULL,
  job_type    TEXT NOT NULL,
  seen_until  TEXT NOT NULL,
  next_slot   TEXT NULL,
  paused      INTEGER NOT NULL DEFAULT 0,
  last_slot   TEXT NULL,
  last_job_id INTEGER NOT NULL DEFAULT 0,
  last_time   TEXT NULL,
  last_queue  TEXT NOT NULL DEFAULT 'NONE',
  left_slot   TEXT NULL,
  left_why    TEXT NOT NULL DEFAULT 'NONE',
  anew_time   TEXT NULL,
  former_spec TEXT NOT NULL DEFAULT 'NONE',
  anew_count  INTEGER NOT NULL DEFAULT 0,
  create_time TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  PRIMARY KEY (name)
) STRICT;
