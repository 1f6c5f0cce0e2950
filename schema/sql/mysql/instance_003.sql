ALTER TABLE {metrics}
  ADD COLUMN wait_min_ms BIGINT NOT NULL DEFAULT 0 AFTER wait_sum_ms,
  -- percentiles; NULL where nothing was counted, or in an hour taken before there were any
  ADD COLUMN wait_p50_ms BIGINT NULL AFTER wait_max_ms,
  ADD COLUMN wait_p95_ms BIGINT NULL AFTER wait_p50_ms,
  ADD COLUMN wait_p99_ms BIGINT NULL AFTER wait_p95_ms,
  ADD COLUMN run_min_ms BIGINT NOT NULL DEFAULT 0 AFTER run_sum_ms,
  ADD COLUMN run_p50_ms BIGINT NULL AFTER run_max_ms,
  ADD COLUMN run_p95_ms BIGINT NULL AFTER run_p50_ms,
  ADD COLUMN run_p99_ms BIGINT NULL AFTER run_p95_ms,
  -- more gauges, NULL as backlog is: how many of it a full group holds back; what the jobs that count against the queue's limit
  -- weigh; and that limit
  ADD COLUMN held BIGINT NULL AFTER backlog,
  ADD COLUMN throttle_used BIGINT NULL AFTER oldest_due_ms,
  ADD COLUMN throttle_limit BIGINT NULL AFTER throttle_used;

ALTER TABLE {hours}
  -- the longest time without a tick on any host that a tick of this hour ended; NULL where none is known
  ADD COLUMN gap_ms BIGINT NULL,
  ADD COLUMN gap_from DATETIME(6) NULL,
  -- the hour's metrics once more, with their histograms, in hipq's own form: what reports are made from
  ADD COLUMN digest LONGBLOB NULL;

-- How many attempts a worker has started; NULL of one that has not ended in order, or was before there was this column.
ALTER TABLE {workers} ADD COLUMN started BIGINT NULL;

-- The ticks of an hour that the monitor has taken, by host.
CREATE TABLE IF NOT EXISTS {host_hours} (
  hour       DATETIME NOT NULL,
  host       VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  ticks      BIGINT NOT NULL,
  -- those that started no job
  idle       BIGINT NOT NULL,
  first_tick DATETIME(6) NOT NULL,
  last_tick  DATETIME(6) NOT NULL,
  -- the longest time without a tick that one of these ended; NULL where none is known
  gap_ms     BIGINT NULL,
  gap_from   DATETIME(6) NULL,
  PRIMARY KEY (hour, host)
) ENGINE=InnoDB;

-- What cron has mailed of late, so that of all ticks on all hosts one says it. hipq purge deletes what is over.
CREATE TABLE IF NOT EXISTS {notices} (
  notice    VARBINARY(255) NOT NULL,
  said_time DATETIME(6) NOT NULL,
  PRIMARY KEY (notice)
) ENGINE=InnoDB;
