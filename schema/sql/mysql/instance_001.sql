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
  -- written by every round of a queue with a limit or a rate: the one row that makes them take turns
  turn           BIGINT NOT NULL DEFAULT 0,
  create_time    DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (queue)
) ENGINE=InnoDB;

-- The registered job types, with the defaults of their jobs.
CREATE TABLE IF NOT EXISTS {job_types} (
  queue           VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  job_type        VARBINARY(64) NOT NULL,
  timeout         INT UNSIGNED NOT NULL DEFAULT 86400,
  priority        INT NOT NULL DEFAULT 100,
  throttle_factor INT UNSIGNED NOT NULL DEFAULT 1,
  time_windows    TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  create_time     DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (queue, job_type)
) ENGINE=InnoDB;

-- The hours that the monitor has taken.
CREATE TABLE IF NOT EXISTS {hours} (
  hour       DATETIME NOT NULL,
  taken_time DATETIME(6) NOT NULL,
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
  wait_max_ms      BIGINT NOT NULL DEFAULT 0,
  run_count        BIGINT NOT NULL DEFAULT 0,
  run_sum_ms       BIGINT NOT NULL DEFAULT 0,
  run_max_ms       BIGINT NOT NULL DEFAULT 0,
  -- the gauges, measured when the hour was taken; NULL in an hour taken later (--at)
  backlog          BIGINT NULL,
  oldest_due_ms    BIGINT NULL,
  gauge_time       DATETIME(6) NULL,
  PRIMARY KEY (hour, queue, job_type)
) ENGINE=InnoDB;
