-- Which of the queue's shards the job is in, by 1000 times the division and the shard: 8003 is shard 3 of 8, 1000 the only one.
ALTER TABLE {jobs} ADD COLUMN shard INTEGER NOT NULL DEFAULT 1000;

DROP INDEX IF EXISTS {jobs}${pick};
CREATE INDEX {jobs}${pick} ON {jobs} (line, shard, part, job_type, run_rank, scheduled_run_time, id);
