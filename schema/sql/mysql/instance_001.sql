-- The append-only log of all transitions of workers and jobs.
CREATE TABLE IF NOT EXISTS {activity} (
  id        BIGINT NOT NULL AUTO_INCREMENT,
  at        DATETIME(6) NOT NULL,
  kind      ENUM('worker','job','queue') CHARACTER SET ascii NOT NULL,
  state     ENUM('added','starting','finished','error','failed','cancelled','released','dismissed','rescheduled','retried','stopping',
              'paused','resumed') CHARACTER SET ascii NOT NULL,
  queue     VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  job_id    BIGINT NOT NULL DEFAULT 0,
  job_type  VARBINARY(256) NOT NULL DEFAULT 'NONE',
  job_key   VARBINARY(256) NOT NULL DEFAULT 'NONE',
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

-- One row per run of the worker. lock_until is the expiry of all its locks: one write renews them.
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
  -- the worker's slots in each lane that has a limit, as JSON
  lanes      TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- how many attempts it has started; NULL unless it ended in order, and of workers by SQL
  started    BIGINT NULL,
  -- 1: registered by the procedures. hipq can't stop its handlers, so it takes back jobs that exceed their timeout
  by_sql     TINYINT NOT NULL DEFAULT 0,
  -- its process, for others on its host: a worker whose process is gone is dead, whatever its lock says; 'NONE': unknown
  process    VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  -- 0: it starts nothing more, so its free slots are for others
  accepting  TINYINT NOT NULL DEFAULT 1,
  -- 1: started by a person, so it doesn't show that cron works
  by_hand    TINYINT NOT NULL DEFAULT 0,
  -- the job types that it runs by queue, as JSON
  serves     TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- how many slots of its host it could use while it has none and those who have them don't run its types
  wants      INT NOT NULL DEFAULT 0,
  PRIMARY KEY (id),
  KEY {workers}$state (state, lock_until),
  KEY {workers}$start (start_time)
) ENGINE=InnoDB;

-- The registered queues, with what commands without the config need.
CREATE TABLE IF NOT EXISTS {queues} (
  queue          VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  throttle_limit BIGINT NOT NULL DEFAULT 0,
  keep_finished  BIGINT NOT NULL DEFAULT 1209600,
  keep_failed    BIGINT NOT NULL DEFAULT 7776000,
  paused         TINYINT NOT NULL DEFAULT 0,
  -- the rest of the queue's config, as JSON: its throttle groups may be many
  settings       MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- the queue's division into shards; only hipq init changes it
  division       INT NOT NULL DEFAULT 1,
  create_time    DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (queue)
) ENGINE=InnoDB;

-- The shards of each queue. In a queue with a limit, groups or a rate, rounds take turns at their shard only.
CREATE TABLE IF NOT EXISTS {shards} (
  queue         VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- 1000 times the division, plus the shard: 8003 is shard 3 of 8
  shard         INT NOT NULL,
  -- each round that takes turns writes this, which makes rounds wait for one another
  turn          BIGINT NOT NULL DEFAULT 0,
  -- when jobs of a queue with a rate were started lately, as JSON
  starts        TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- the shard's share of the queue's limit, and of the rate. Unused with one shard
  share         BIGINT NOT NULL DEFAULT 0,
  rate_share    BIGINT NOT NULL DEFAULT 0,
  -- when the shares were last divided; times in this table are microseconds since 1970
  divide_time   BIGINT NOT NULL DEFAULT 0,
  -- the weight of the jobs that await an answer: at least that, because an answer doesn't reduce it
  awaiting      BIGINT NOT NULL DEFAULT 0,
  -- when that was last summed up
  awaiting_time BIGINT NOT NULL DEFAULT 0,
  -- since when jobs have waited for the limit or the rate while none started; 0: none waits
  wait_since    BIGINT NOT NULL DEFAULT 0,
  -- the weight of the first of them
  wait_factor   INT NOT NULL DEFAULT 0,
  PRIMARY KEY (queue, shard)
) ENGINE=InnoDB;

-- The registered job types, with their jobs' defaults.
CREATE TABLE IF NOT EXISTS {job_types} (
  queue           VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  job_type        VARBINARY(255) NOT NULL,
  timeout         INT UNSIGNED NOT NULL DEFAULT 86400,
  priority        INT NOT NULL DEFAULT 100,
  throttle_factor INT UNSIGNED NOT NULL DEFAULT 1,
  time_windows    TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- what else the procedures need, as JSON: the retry policy, and whether retry or asynchronous handlers decide
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

-- What the monitor counted in an hour, by queue and job type; workers are under queue 'NONE'.
CREATE TABLE IF NOT EXISTS {metrics} (
  hour             DATETIME NOT NULL,
  queue            VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  job_type         VARBINARY(256) NOT NULL,
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
  -- percentiles, and histograms in hipq's own format; NULL if nothing was counted
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
  -- gauges, measured when the hour was aggregated; NULL if that was later (--at). `held` counts jobs held by a full group
  backlog          BIGINT NULL,
  held             BIGINT NULL,
  oldest_due_ms    BIGINT NULL,
  -- the weight of the jobs that count against the queue's limit, and that limit
  throttle_used    BIGINT NULL,
  throttle_limit   BIGINT NULL,
  gauge_time       DATETIME(6) NULL,
  PRIMARY KEY (hour, queue, job_type)
) ENGINE=InnoDB;

-- Recent mails from cron, so that only one tick on all hosts sends each. hipq purge deletes those that are over.
CREATE TABLE IF NOT EXISTS {notices} (
  notice    VARBINARY(255) NOT NULL,
  said_time DATETIME(6) NOT NULL,
  PRIMARY KEY (notice)
) ENGINE=InnoDB;

-- The recurring jobs, and which of their slots are done.
CREATE TABLE IF NOT EXISTS {schedules} (
  name        VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- the schedule of its slots, with the zone
  spec        VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  queue       VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  job_type    VARBINARY(255) NOT NULL,
  -- all slots up to this time are done; the writer of a new value handles the slots between
  seen_until  DATETIME(6) NOT NULL,
  -- the first slot after that, or an earlier time if it isn't computed yet; NULL if paused
  next_slot   DATETIME(6) NULL,
  paused      TINYINT NOT NULL DEFAULT 0,
  -- the last slot that added a job, that job, and when; NULL and 0 before the first
  last_slot   DATETIME(6) NULL,
  last_job_id BIGINT NOT NULL DEFAULT 0,
  last_time   DATETIME(6) NULL,
  -- that job's queue, which may have differed then
  last_queue  VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  -- the last slot that was missed or due without a job, and why
  left_slot   DATETIME(6) NULL,
  left_why    VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'NONE',
  -- when the spec last changed, the spec before, and how many changes in a row came within an hour of the last
  anew_time   DATETIME(6) NULL,
  former_spec VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'NONE',
  anew_count  INT NOT NULL DEFAULT 0,
  create_time DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (name)
) ENGINE=InnoDB;
