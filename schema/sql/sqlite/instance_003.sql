ALTER TABLE {metrics} ADD COLUMN wait_min_ms INTEGER NOT NULL DEFAULT 0;
-- Percentiles; NULL where nothing was counted, or in an hour taken before there were any.
ALTER TABLE {metrics} ADD COLUMN wait_p50_ms INTEGER NULL;
ALTER TABLE {metrics} ADD COLUMN wait_p95_ms INTEGER NULL;
ALTER TABLE {metrics} ADD COLUMN wait_p99_ms INTEGER NULL;
ALTER TABLE {metrics} ADD COLUMN run_min_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {metrics} ADD COLUMN run_p50_ms INTEGER NULL;
ALTER TABLE {metrics} ADD COLUMN run_p95_ms INTEGER NULL;
ALTER TABLE {metrics} ADD COLUMN run_p99_ms INTEGER NULL;
-- More gauges, NULL as backlog is: how many of it a full group holds back; what the jobs that count against the queue's limit
-- weigh; and that limit.
ALTER TABLE {metrics} ADD COLUMN held INTEGER NULL;
ALTER TABLE {metrics} ADD COLUMN throttle_used INTEGER NULL;
ALTER TABLE {metrics} ADD COLUMN throttle_limit INTEGER NULL;
-- The longest time without a tick on any host that a tick of this hour ended; NULL where none is known.
ALTER TABLE {hours} ADD COLUMN gap_ms INTEGER NULL;
ALTER TABLE {hours} ADD COLUMN gap_from TEXT NULL;
-- The hour's metrics once more, with their histograms, in hipq's own form: what reports are made from.
ALTER TABLE {hours} ADD COLUMN digest BLOB NULL;

-- How many attempts a worker has started; NULL of one that has not ended in order, or was before there was this column.
ALTER TABLE {workers} ADD COLUMN started INTEGER NULL;

-- The ticks of an hour that the monitor has taken, by host.
CREATE TABLE IF NOT EXISTS {host_hours} (
  hour       TEXT NOT NULL,
  host       TEXT NOT NULL,
  ticks      INTEGER NOT NULL,
  -- those that started no job
  idle       INTEGER NOT NULL,
  first_tick TEXT NOT NULL,
  last_tick  TEXT NOT NULL,
  -- the longest time without a tick that one of these ended; NULL where none is known
  gap_ms     INTEGER NULL,
  gap_from   TEXT NULL,
  PRIMARY KEY (hour, host)
);

-- What cron has mailed of late, so that of all ticks one says it. hipq purge deletes what is over.
CREATE TABLE IF NOT EXISTS {notices} (
  notice    TEXT NOT NULL,
  said_time TEXT NOT NULL,
  PRIMARY KEY (notice)
);
