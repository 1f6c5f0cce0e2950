-- The jobs of one queue. docs/reference/schema.md explains every column, docs/internals/queries.md lists the queries of each index.
CREATE TABLE IF NOT EXISTS {jobs} (
  id                 BIGINT NOT NULL AUTO_INCREMENT,
  job_type           VARBINARY(64) NOT NULL,
  job_data           LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  job_key            VARBINARY(255) NOT NULL DEFAULT (UUID()),
  -- where the job stands. 'closed' is final with an error that needs nothing more. 'scheduled' follows 'available', because a lock on the
  -- range of a status is also on the gap before it, into which the jobs go that are tried again
  status             ENUM('submitted','available','scheduled','throttled','locked','running','answered','deciding','awaiting','undecided',
                       'finished','failed','closed') CHARACTER SET ascii NOT NULL DEFAULT 'submitted',
  -- NULL in a row inserted by plain SQL until a tick takes it in: the job type's default
  timeout            INT UNSIGNED NULL,
  priority           INT NULL,
  throttle_factor    INT UNSIGNED NULL,
  time_windows       TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  throttle_group     VARBINARY(255) NOT NULL DEFAULT 'NONE',
  shard_key          VARBINARY(255) NOT NULL DEFAULT 'NONE',
  -- which of the queue's shards it is in, by 1000 times the division and the shard: 8003 is shard 3 of 8, 1000 the only one
  shard              INT NOT NULL DEFAULT 1000,
  attempt            INT UNSIGNED NOT NULL DEFAULT 0,
  -- how many attempts don't count for the retry policy: they ended because their worker was told to stop
  interrupts         INT UNSIGNED NOT NULL DEFAULT 0,
  -- how many of the latest attempts in a row ended with their worker
  losses             INT UNSIGNED NOT NULL DEFAULT 0,
  scheduled_run_time DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  -- when somebody must look at the row though nothing touches it: 'scheduled' becomes available, 'awaiting' times out; else NULL
  wake_time          DATETIME(6) NULL,
  -- when the current attempt began; before the first, when the job was added (of plain SQL: NULL), so that the row need not grow
  start_time         DATETIME(6) NULL,
  worker_id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  lock_token         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  -- the lock of the latest attempt, also when lock_token has changed since
  attempt_token      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  -- 1: an operator wants the worker to stop it
  stopping           TINYINT NOT NULL DEFAULT 0,
  -- what a handler said of its retry, for as long as the job waits for the decision: 'never', or a delay such as 5m0s
  retry_override     VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  -- how far the attempt that progress_attempt names has come, as its handler says; 0: none has said anything
  progress           TINYINT UNSIGNED NOT NULL DEFAULT 0,
  progress_note      VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'NONE',
  progress_attempt   INT UNSIGNED NOT NULL DEFAULT 0,
  progress_time      DATETIME(6) NULL,
  error              MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  result             LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- what the handler printed in an attempt that has no outcome in the activity yet
  output             MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- the final job that this one repeats, and the latest that repeats this one; NULL: none
  retry_of           BIGINT NULL,
  retried_as         BIGINT NULL,
  create_time        DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  update_time        DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  -- how far it has come: what the status says for who reads
  state              VARCHAR(8) CHARACTER SET ascii AS (CASE WHEN status IN ('finished', 'failed', 'closed') THEN 'final'
    WHEN status IN ('running', 'answered', 'awaiting') THEN 'running'
    WHEN status IN ('deciding', 'undecided') THEN 'error' WHEN attempt > 0 THEN 'retry' ELSE 'initial' END) VIRTUAL,
  -- stored, not virtual: an index on a virtual column would bar MariaDB from adding columns instantly
  live               TINYINT AS (IF(status IN ('finished', 'failed', 'closed'), NULL, 1)) STORED,
  -- where among those of its status: the jobs that a full group holds back, those that no limit holds back, those to be stopped
  part               VARBINARY(255) AS (CASE WHEN status = 'throttled' THEN throttle_group
    WHEN status = 'available' THEN IF(throttle_factor = 0, 'free', 'NONE')
    WHEN stopping = 1 AND status IN ('locked', 'running', 'answered', 'deciding') THEN 'stop' ELSE 'NONE' END) STORED,
  -- One index and one ORDER BY serve every order of a queue: this is the priority, its negative where the highest comes first, or
  -- 0 where the schedule does. hipq init makes it anew when the order changes.
  run_rank           BIGINT AS (priority) STORED,
  PRIMARY KEY (id),
  UNIQUE KEY {jobs}$live (job_type, job_key, live),
  KEY {jobs}$claim (status, shard, part, job_type, {order}, attempt),
  KEY {jobs}$wake (wake_time),
  -- A row that hipq could not work with is refused, if an application writes it; one that is final may keep what made it fail. The
  -- names tell the application what is wrong. hipq's own connections don't look.
  CONSTRAINT {jobs}$status CHECK (status <> ''),
  CONSTRAINT {jobs}$wake CHECK ((wake_time IS NOT NULL) = (status IN ('scheduled', 'awaiting'))),
  CONSTRAINT {jobs}$timeout CHECK (timeout IS NOT NULL AND timeout BETWEEN 1 AND 316224000 OR timeout IS NULL AND status = 'submitted' OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$priority CHECK (priority IS NOT NULL AND priority >= -2147483647 OR priority IS NULL AND status = 'submitted' OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$factor CHECK (throttle_factor IS NOT NULL AND throttle_factor <= 2147483647 OR throttle_factor IS NULL AND status = 'submitted' OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$windows CHECK (time_windows IS NOT NULL OR status IN ('submitted', 'finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$group CHECK (status <> 'throttled' OR throttle_group <> ''),
  CONSTRAINT {jobs}$size CHECK (OCTET_LENGTH(job_data) <= 1048576 OR status IN ('finished', 'failed', 'closed')),
  -- a server may be told to take 0000-00-00
  CONSTRAINT {jobs}$run_time CHECK (scheduled_run_time >= '1970-01-01' AND MONTH(scheduled_run_time) > 0 AND DAYOFMONTH(scheduled_run_time) > 0)
) ENGINE=InnoDB;
