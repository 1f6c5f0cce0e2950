-- One index and one ORDER BY serve every order of a queue: run_rank is the priority, its negative where the highest comes
-- first, or 0 where the schedule does. hipq init makes it anew when the order changes.
DROP INDEX IF EXISTS {jobs}$pick;
DROP INDEX IF EXISTS {jobs}$pick_schedule;
DROP INDEX IF EXISTS {jobs}$pick_highest;
DROP INDEX IF EXISTS {jobs}$pick_schedule_highest;
ALTER TABLE {jobs} ADD COLUMN run_rank INTEGER AS (priority) VIRTUAL;
CREATE INDEX {jobs}$pick ON {jobs} (line, part, job_type, run_rank, scheduled_run_time, id);
