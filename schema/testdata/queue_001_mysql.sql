-- The jobs of one queue. docs/schema.md explains every column and lists the queries that each index serves.
CREATE TABLE IF NOT EXISTS shop_emails (
  id                 BIGINT NOT NULL AUTO_INCREMENT,
  job_type           VARBINARY(64) NOT NULL,
  job_data           LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  job_key            VARBINARY(255) NOT NULL DEFAULT (UUID()),
  state              ENUM('initial','running','error','retry','final') CHARACTER SET ascii NOT NULL DEFAULT 'initial',
  -- where the row stands for the queries that poll: only 'due' is in the range from which candidates are read
  line               ENUM('new','due','later','held','locked','waiting','error','finished','failed') CHARACTER SET ascii NOT NULL DEFAULT 'new',
  -- NULL in a row inserted by plain SQL until a tick takes it in: the job type's default
  timeout            INT UNSIGNED NULL,
  priority           INT NULL,
  throttle_factor    INT UNSIGNED NULL,
  time_windows       TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  throttle_group     VARBINARY(255) NOT NULL DEFAULT 'NONE',
  shard_key          VARBINARY(255) NOT NULL DEFAULT 'NONE',
  attempt            INT UNSIGNED NOT NULL DEFAULT 0,
  scheduled_run_time DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  -- when somebody must look at the row though nothing touches it: 'later' is promoted, 'waiting' times out; else NULL
  wake_time          DATETIME(6) NULL,
  -- when the current attempt began; before the first, when the job was added (of plain SQL: NULL), so that the row need not grow
  start_time         DATETIME(6) NULL,
  worker_id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  lock_token         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  error              MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  result             LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  create_time        DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  update_time        DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  -- stored, not virtual: an index on a virtual column would bar MariaDB from adding columns instantly
  live               TINYINT AS (IF(state = 'final', NULL, 1)) STORED,
  -- what only hipq writes must be whole, whoever inserts a row: one that is not would stop the worker that meets it
  CHECK (line <> 'new' OR state = 'initial'),
  CHECK ((state = 'final') = (line IN ('finished', 'failed'))),
  CHECK (line = 'new' OR timeout IS NOT NULL AND priority IS NOT NULL AND throttle_factor IS NOT NULL AND time_windows IS NOT NULL),
  -- MySQL's servers may be told to take 0000-00-00, which is no time
  CHECK (scheduled_run_time >= '1970-01-01' AND MONTH(scheduled_run_time) > 0 AND DAYOFMONTH(scheduled_run_time) > 0),
  PRIMARY KEY (id),
  UNIQUE KEY shop_emails$live (job_type, job_key, live),
  KEY shop_emails$pick (line, job_type, priority, scheduled_run_time, id),
  KEY shop_emails$wake (wake_time)
) ENGINE=InnoDB;
