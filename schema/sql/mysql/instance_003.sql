ALTER TABLE {metrics}
  ADD COLUMN wait_min_ms BIGINT NOT NULL DEFAULT 0 AFTER wait_sum_ms,
  -- percentiles; NULL where nothing was counted, or in an hour taken before there were any
  ADD COLUMN wait_p50_ms BIGINT NULL AFTER wait_max_ms,
  ADD COLUMN wait_p95_ms BIGINT NULL AFTER wait_p50_ms,
  ADD COLUMN wait_p99_ms BIGINT NULL AFTER wait_p95_ms,
  ADD COLUMN run_min_ms BIGINT NOT NULL DEFAULT 0 AFTER run_sum_ms,
  ADD COLUMN run_p50_ms BIGINT NULL AFTER run_max_ms,
  ADD COLUMN run_p95_ms BIGINT NULL AFTER run_p50_ms,
  ADD COLUMN run_p99_ms BIGINT NULL AFTER run_p95_ms;

-- the hour's metrics once more, with their histograms, in hipq's own form: what reports are made from
ALTER TABLE {hours} ADD COLUMN digest LONGBLOB NULL;
