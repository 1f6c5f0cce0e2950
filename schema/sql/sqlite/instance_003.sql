ALTER TABLE {metrics} ADD COLUMN wait_min_ms INTEGER NOT NULL DEFAULT 0;
-- Percentiles; NULL where nothing was counted, or in an hour taken before there were any.
ALTER TABLE {metrics} ADD COLUMN wait_p50_ms INTEGER NULL;
ALTER TABLE {metrics} ADD COLUMN wait_p95_ms INTEGER NULL;
ALTER TABLE {metrics} ADD COLUMN wait_p99_ms INTEGER NULL;
ALTER TABLE {metrics} ADD COLUMN run_min_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {metrics} ADD COLUMN run_p50_ms INTEGER NULL;
ALTER TABLE {metrics} ADD COLUMN run_p95_ms INTEGER NULL;
ALTER TABLE {metrics} ADD COLUMN run_p99_ms INTEGER NULL;
-- The hour's metrics once more, with their histograms, in hipq's own form: what reports are made from.
ALTER TABLE {hours} ADD COLUMN digest BLOB NULL;
