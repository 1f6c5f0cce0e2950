-- One index and one ORDER BY serve every order of a queue: run_rank is the priority, its negative where the highest comes
-- first, or 0 where the schedule does. hipq init makes it anew when the order changes. One statement, as a whole.
ALTER TABLE {jobs}
  ADD COLUMN run_rank BIGINT AS (priority) STORED AFTER part,
  DROP INDEX {jobs}$pick,
  ADD INDEX {jobs}$pick (line, part, job_type, run_rank, scheduled_run_time, id);
