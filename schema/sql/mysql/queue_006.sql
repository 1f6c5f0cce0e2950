-- Which of the queue's shards the job is in, by 1000 times the division and the shard: 8003 is shard 3 of 8, 1000 the only one.
-- It is the last, for only so MySQL before 8.0.29 adds it at once.
ALTER TABLE {jobs} ADD COLUMN shard INT NOT NULL DEFAULT 1000;

ALTER TABLE {jobs}
  DROP INDEX {jobs}${pick},
  ADD INDEX {jobs}${pick} (line, shard, part, job_type, run_rank, scheduled_run_time, id);
