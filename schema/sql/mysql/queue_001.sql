-- The jobs of one queue. docs/reference/schema.md explains each column, and lists the queries that each index serves.
CREATE TABLE IF NOT EXISTS {jobs} (
  id                 BIGINT NOT NULL AUTO_INCREMENT,
  -- an application's texts have a byte more than allowed: a session without strict mode cuts them, and the constraints refuse those
  job_type           VARBINARY(256) NOT NULL,
  job_data           LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  job_key            VARBINARY(256) NOT NULL DEFAULT (UUID()),
  -- 'closed' is final with an error that needs nothing more. 'scheduled' follows 'available', because a lock on a
  -- status's range also locks the gap before it, and jobs that are retried go into that gap
  status             ENUM('submitted','available','scheduled','throttled','locked','running','answered','deciding','awaiting','undecided',
                       'finished','failed','closed') CHARACTER SET ascii NOT NULL DEFAULT 'submitted',
  -- NULL in a row from plain SQL until a tick ingests it with the job type's default
  timeout            INT UNSIGNED NULL,
  priority           INT NULL,
  throttle_factor    INT UNSIGNED NULL,
  time_windows       TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  throttle_group     VARBINARY(255) NOT NULL DEFAULT 'NONE',
  shard_key          VARBINARY(256) NOT NULL DEFAULT 'NONE',
  -- the shard's place: 1000 times the division, plus the shard; 8003 is shard 3 of 8, 1000 the only shard
  shard              INT NOT NULL DEFAULT 1000,
  attempt            INT UNSIGNED NOT NULL DEFAULT 0,
  -- attempts that the retry policy doesn't count: interrupted ones, and released ones
  uncounted          INT UNSIGNED NOT NULL DEFAULT 0,
  -- attempts that ended because their worker did, or never began, for handlers that count the others
  interrupted        INT UNSIGNED NOT NULL DEFAULT 0,
  -- how many of the latest attempts in a row ended with their worker
  losses             INT UNSIGNED NOT NULL DEFAULT 0,
  scheduled_run_time DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  -- when the upkeep must handle the row: 'scheduled' becomes available, 'awaiting' times out; else NULL
  wake_time          DATETIME(6) NULL,
  -- when a worker last asked for a 'throttled' job that stands in line, and holds others up since then; NULL if its group holds it
  asked_time         DATETIME(6) NULL,
  -- when the current attempt began; before the first, when the job was added (NULL for plain SQL), so that the row doesn't grow
  start_time         DATETIME(6) NULL,
  worker_id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  lock_token         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  -- the lock of the latest attempt, even if lock_token has changed since
  attempt_token      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  -- 1: an operator wants the worker to stop the attempt
  stopping           TINYINT NOT NULL DEFAULT 0,
  -- a handler's retry override while the decision is pending: 'never', or a delay such as 5m0s
  retry_override     VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  -- what the handler of attempt progress_attempt reported; 0: nothing yet
  progress           TINYINT UNSIGNED NOT NULL DEFAULT 0,
  progress_note      VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'NONE',
  progress_attempt   INT UNSIGNED NOT NULL DEFAULT 0,
  progress_time      DATETIME(6) NULL,
  error              MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  result             LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- what the handler printed in an attempt that has no outcome in the activity yet
  output             MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- the final job that this one repeats, and the latest job that repeats this one; NULL: none
  retry_of           BIGINT NULL,
  retried_as         BIGINT NULL,
  create_time        DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  update_time        DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  -- the status in simpler terms, for readers
  state              VARCHAR(8) CHARACTER SET ascii AS (CASE WHEN status IN ('finished', 'failed', 'closed') THEN 'final'
    WHEN status IN ('running', 'answered', 'awaiting') THEN 'running'
    WHEN status IN ('deciding', 'undecided') THEN 'error' WHEN attempt > 0 THEN 'retry' ELSE 'initial' END) VIRTUAL,
  -- stored, not virtual: an index on a virtual column would keep MariaDB from adding columns instantly
  live               TINYINT AS (IF(status IN ('finished', 'failed', 'closed'), NULL, 1)) STORED,
  -- the queue's order: see schema/order.go. If it changes, so do the default, at once, and the live rows, few at a time
  rank_sign          TINYINT NOT NULL DEFAULT {sign},
  -- a range within the status: the jobs first in line for a limit, those that a group holds behind them or that await an
  -- answer in it, jobs without a weight, jobs to stop
  part               VARBINARY(255) AS (CASE WHEN status = 'throttled' AND asked_time IS NOT NULL THEN 'line'
    WHEN status IN ('throttled', 'awaiting') THEN throttle_group
    WHEN status = 'available' THEN IF(throttle_factor = 0, 'free', 'NONE')
    WHEN stopping = 1 AND status IN ('locked', 'running', 'answered', 'deciding') THEN 'stop' ELSE 'NONE' END) STORED,
  -- One index and one ORDER BY serve each order of a queue. This is the priority, its negative if the highest comes first, or 0
  -- if the schedule does.
  run_rank           BIGINT AS (priority * rank_sign) STORED,
  PRIMARY KEY (id),
  UNIQUE KEY {jobs}$live (job_type, job_key, live),
  KEY {jobs}$claim (status, shard, part, job_type, {order}, attempt),
  KEY {jobs}$wake (wake_time),
  -- The constraints refuse an application's row that hipq couldn't use; a final job may keep what made it fail. Their
  -- names tell the application what is wrong. hipq's own connections don't check them.
  CONSTRAINT {jobs}$status CHECK (status <> ''),
  CONSTRAINT {jobs}$wake CHECK ((wake_time IS NOT NULL) = (status IN ('scheduled', 'awaiting'))),
  CONSTRAINT {jobs}$timeout CHECK (timeout IS NOT NULL AND timeout BETWEEN 1 AND 316224000 OR timeout IS NULL AND status = 'submitted' OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$priority CHECK (priority IS NOT NULL AND priority >= -2147483647 OR priority IS NULL AND status = 'submitted' OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$factor CHECK (throttle_factor IS NOT NULL AND throttle_factor <= 2147483647 OR throttle_factor IS NULL AND status = 'submitted' OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$windows CHECK (time_windows IS NOT NULL AND OCTET_LENGTH(time_windows) <= 2048 OR time_windows IS NULL AND status = 'submitted' OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$group CHECK (status <> 'throttled' OR throttle_group <> ''),
  CONSTRAINT {jobs}$size CHECK (OCTET_LENGTH(job_data) BETWEEN 1 AND 1048576 OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$job_type CHECK (OCTET_LENGTH(job_type) <= 255 OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$job_key CHECK (OCTET_LENGTH(job_key) <= 255 OR status IN ('finished', 'failed', 'closed')),
  CONSTRAINT {jobs}$shard_key CHECK (OCTET_LENGTH(shard_key) <= 255 OR status IN ('finished', 'failed', 'closed')),
  -- a server may be configured to accept 0000-00-00
  CONSTRAINT {jobs}$run_time CHECK (scheduled_run_time >= '1970-01-01' AND (scheduled_run_time < '9999-01-01' OR status <> 'submitted') AND MONTH(scheduled_run_time) > 0 AND DAYOFMONTH(scheduled_run_time) > 0)
) ENGINE=InnoDB;
