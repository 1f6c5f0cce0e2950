-- The recurring jobs: which of their slots have been seen to.
CREATE TABLE IF NOT EXISTS {schedules} (
  name        TEXT NOT NULL,
  -- of what the config says of the schedule: by their sum a tick knows that nothing has changed
  fingerprint INTEGER NOT NULL,
  -- when its slots are, with the zone
  spec        TEXT NOT NULL,
  queue       TEXT NOT NULL,
  job_type    TEXT NOT NULL,
  -- all slots up to this time are seen to; who writes another one has the slots between
  seen_until  TEXT NOT NULL,
  -- the first slot after that, or an earlier time where that is still to be found; NULL of one that is paused
  next_slot   TEXT NULL,
  paused      INTEGER NOT NULL DEFAULT 0,
  -- the last slot that has led to a job, which job, and when; NULL and 0 before the first
  last_slot   TEXT NULL,
  last_job_id INTEGER NOT NULL DEFAULT 0,
  last_time   TEXT NULL,
  -- the queue of that job, which may have been another then
  last_queue  TEXT NOT NULL DEFAULT 'NONE',
  -- the last slot that got no job although it was missed or due, and why
  left_slot   TEXT NULL,
  left_why    TEXT NOT NULL DEFAULT 'NONE',
  -- when it last began anew with another spec, which it had before, and how often in turn, each within an hour of the one before
  anew_time   TEXT NULL,
  former_spec TEXT NOT NULL DEFAULT 'NONE',
  anew_count  INTEGER NOT NULL DEFAULT 0,
  create_time TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  PRIMARY KEY (name)
);

CREATE INDEX IF NOT EXISTS {schedules}$look ON {schedules} (queue, fingerprint, next_slot, seen_until);

-- As on MySQL; no procedure reads it here.
ALTER TABLE {job_types} ADD COLUMN settings TEXT NOT NULL DEFAULT 'NONE';

-- As on MySQL; nobody registers by procedures here.
ALTER TABLE {workers} ADD COLUMN by_sql INTEGER NOT NULL DEFAULT 0;
