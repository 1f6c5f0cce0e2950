-- The append-only log of every transition of a worker or a job.
CREATE TABLE IF NOT EXISTS {activity} (
  id        BIGINT NOT NULL AUTO_INCREMENT,
  at        DATETIME(6) NOT NULL,
  kind      ENUM('worker','job') CHARACTER SET ascii NOT NULL,
  state     ENUM('added','starting','finished','error','failed','cancelled') CHARACTER SET ascii NOT NULL,
  queue     VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  job_id    BIGINT NOT NULL DEFAULT 0,
  job_type  VARBINARY(64) NOT NULL DEFAULT 'NONE',
  job_key   VARBINARY(255) NOT NULL DEFAULT 'NONE',
  worker_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  host      VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'NONE',
  pid       INT NOT NULL DEFAULT 0,
  attempt   INT UNSIGNED NOT NULL DEFAULT 0,
  wait_ms   BIGINT NOT NULL DEFAULT 0,
  run_ms    BIGINT NOT NULL DEFAULT 0,
  error     MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  output    MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  PRIMARY KEY (id),
  KEY {activity}$at (at),
  KEY {activity}$job (job_id, queue)
) ENGINE=InnoDB;

-- One row an execution of the worker. lock_until is the expiry of all of its locks: one write renews them.
CREATE TABLE IF NOT EXISTS {workers} (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  host       VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  pid        INT NOT NULL,
  state      ENUM('working','finished','error') CHARACTER SET ascii NOT NULL,
  slots      INT NOT NULL DEFAULT 0,
  start_time DATETIME(6) NOT NULL,
  heartbeat  DATETIME(6) NOT NULL,
  lock_until DATETIME(6) NOT NULL,
  end_time   DATETIME(6) NULL,
  -- how many slots it has in each lane that has a limit, as JSON
  lanes      TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- how many attempts it has started; NULL of one that has not ended in order
  started    BIGINT NULL,
  -- 1: a program that registered by the procedures. hipq can't stop its handlers, so what is over its timeout is taken from it
  by_sql     TINYINT NOT NULL DEFAULT 0,
  -- which process of its host it is, for the others there: one that is gone is dead, whatever its lock says; 'NONE': nobody can tell
  process    VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  -- 0: it starts nothing more, so the slots that come free are for others
  accepting  TINYINT NOT NULL DEFAULT 1,
  -- 1: a person has started it, so it is no sign that cron works
  by_hand    TINYINT NOT NULL DEFAULT 0,
  PRIMARY KEY (id),
  KEY {workers}$state (state, lock_until),
  KEY {workers}$start (start_time)
) ENGINE=InnoDB;

-- The registered queues, with what commands without their config need of them.
CREATE TABLE IF NOT EXISTS {queues} (
  queue          VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  throttle_limit BIGINT NOT NULL DEFAULT 0,
  keep_finished  BIGINT NOT NULL DEFAULT 1209600,
  keep_failed    BIGINT NOT NULL DEFAULT 7776000,
  paused         TINYINT NOT NULL DEFAULT 0,
  -- what else the config says of the queue, as JSON
  settings       TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- how its jobs are divided into shards, as a number: hipq init alone changes it
  division       INT NOT NULL DEFAULT 1,
  create_time    DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (queue)
) ENGINE=InnoDB;

-- The shards of a queue: who starts jobs of a queue with a limit, groups or a rate takes turns with the others at its shard alone.
CREATE TABLE IF NOT EXISTS {shards} (
  queue         VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- 1000 times the division, and behind that which shard it is: 8003 is shard 3 of 8
  shard         INT NOT NULL,
  -- written by every round that takes turns: the one row that makes them do so
  turn          BIGINT NOT NULL DEFAULT 0,
  -- when jobs of a queue with a rate were started lately, as JSON
  starts        TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- what it may use of the queue's limit, and of the rate's starts. Unused where there is one shard
  share         BIGINT NOT NULL DEFAULT 0,
  rate_share    BIGINT NOT NULL DEFAULT 0,
  -- when these were divided last, as all times here in microseconds since 1970
  divide_time   BIGINT NOT NULL DEFAULT 0,
  -- the first jobs in order of some types that have no room in the limit, as JSON: nothing behind the first of them starts
  heads         TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- since when nothing has started there for want of the limit or the rate
  wait_since    BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (queue, shard)
) ENGINE=InnoDB;

-- The registered job types, with the defaults of their jobs.
CREATE TABLE IF NOT EXISTS {job_types} (
  queue           VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  job_type        VARBINARY(64) NOT NULL,
  timeout         INT UNSIGNED NOT NULL DEFAULT 86400,
  priority        INT NOT NULL DEFAULT 100,
  throttle_factor INT UNSIGNED NOT NULL DEFAULT 1,
  time_windows    TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- what the procedures need besides, as JSON: its retry policy, and who else decides
  settings        TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  create_time     DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (queue, job_type)
) ENGINE=InnoDB;

-- The hours that the monitor has aggregated.
CREATE TABLE IF NOT EXISTS {hours} (
  hour            DATETIME NOT NULL,
  aggregated_time DATETIME(6) NOT NULL,
  PRIMARY KEY (hour)
) ENGINE=InnoDB;

-- What the monitor counted in an hour, by queue and job type; the workers under queue 'NONE'.
CREATE TABLE IF NOT EXISTS {metrics} (
  hour             DATETIME NOT NULL,
  queue            VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  job_type         VARBINARY(64) NOT NULL,
  added            BIGINT NOT NULL DEFAULT 0,
  started          BIGINT NOT NULL DEFAULT 0,
  finished         BIGINT NOT NULL DEFAULT 0,
  errors           BIGINT NOT NULL DEFAULT 0,
  failed           BIGINT NOT NULL DEFAULT 0,
  workers_started  BIGINT NOT NULL DEFAULT 0,
  workers_finished BIGINT NOT NULL DEFAULT 0,
  workers_died     BIGINT NOT NULL DEFAULT 0,
  wait_count       BIGINT NOT NULL DEFAULT 0,
  wait_sum_ms      BIGINT NOT NULL DEFAULT 0,
  wait_min_ms      BIGINT NOT NULL DEFAULT 0,
  wait_max_ms      BIGINT NOT NULL DEFAULT 0,
  -- percentiles, and how many times are how long in hipq's own form; NULL where nothing was counted
  wait_p50_ms      BIGINT NULL,
  wait_p95_ms      BIGINT NULL,
  wait_p99_ms      BIGINT NULL,
  wait_histogram   BLOB NULL,
  run_count        BIGINT NOT NULL DEFAULT 0,
  run_sum_ms       BIGINT NOT NULL DEFAULT 0,
  run_min_ms       BIGINT NOT NULL DEFAULT 0,
  run_max_ms       BIGINT NOT NULL DEFAULT 0,
  run_p50_ms       BIGINT NULL,
  run_p95_ms       BIGINT NULL,
  run_p99_ms       BIGINT NULL,
  run_histogram    BLOB NULL,
  -- the gauges, measured when the hour was aggregated; NULL where that was later (--at). A full group holds `held` back
  backlog          BIGINT NULL,
  held             BIGINT NULL,
  oldest_due_ms    BIGINT NULL,
  -- what the jobs weigh that count against the queue's limit, and that limit
  throttle_used    BIGINT NULL,
  throttle_limit   BIGINT NULL,
  gauge_time       DATETIME(6) NULL,
  PRIMARY KEY (hour, queue, job_type)
) ENGINE=InnoDB;

-- What cron has mailed of late, so that of all ticks on all hosts one says it. hipq purge deletes what is over.
CREATE TABLE IF NOT EXISTS {notices} (
  notice    VARBINARY(255) NOT NULL,
  said_time DATETIME(6) NOT NULL,
  PRIMARY KEY (notice)
) ENGINE=InnoDB;

-- The recurring jobs: which of their slots have been seen to.
CREATE TABLE IF NOT EXISTS {schedules} (
  name        VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- when its slots are, with the zone
  spec        VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  queue       VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  job_type    VARBINARY(64) NOT NULL,
  -- all slots up to this time are seen to; who writes another one has the slots between
  seen_until  DATETIME(6) NOT NULL,
  -- the first slot after that, or an earlier time where that is still to be found; NULL of one that is paused
  next_slot   DATETIME(6) NULL,
  paused      TINYINT NOT NULL DEFAULT 0,
  -- the last slot that has led to a job, which job, and when; NULL and 0 before the first
  last_slot   DATETIME(6) NULL,
  last_job_id BIGINT NOT NULL DEFAULT 0,
  last_time   DATETIME(6) NULL,
  -- the queue of that job, which may have been another then
  last_queue  VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  -- the last slot that got no job although it was missed or due, and why
  left_slot   DATETIME(6) NULL,
  left_why    VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'NONE',
  -- when it last began anew with another spec, which it had before, and how often in turn, each within an hour of the one before
  anew_time   DATETIME(6) NULL,
  former_spec VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'NONE',
  anew_count  INT NOT NULL DEFAULT 0,
  create_time DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (name)
) ENGINE=InnoDB;
