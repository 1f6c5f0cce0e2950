-- The recurring jobs: which of their slots have been seen to.
CREATE TABLE IF NOT EXISTS {schedules} (
  name        VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- of what the config says of the schedule: by their sum a tick knows that nothing has changed
  fingerprint BIGINT NOT NULL,
  -- when its slots are, with the zone
  spec        VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  queue       VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  job_type    VARBINARY(64) NOT NULL,
  -- all slots up to this time are seen to; who writes another one has the slots between
  seen_until  DATETIME(6) NOT NULL,
  -- the first slot after that, or an earlier time where that is still to be found; NULL of one that is paused
  next_slot   DATETIME(6) NULL,
  paused      TINYINT NOT NULL DEFAULT 0,
  -- the last slot that has led to a job, which job, and when; NULL and 0 before the first
  last_slot   DATETIME(6) NULL,
  last_job_id BIGINT NOT NULL DEFAULT 0,
  last_time   DATETIME(6) NULL,
  -- the queue of that job, which may have been another then
  last_queue  VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'NONE',
  -- the last slot that got no job although it was missed or due, and why
  left_slot   DATETIME(6) NULL,
  left_why    VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'NONE',
  -- when it last began anew with another spec, which it had before, and how often in turn, each within an hour of the one before
  anew_time   DATETIME(6) NULL,
  former_spec VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'NONE',
  anew_count  INT NOT NULL DEFAULT 0,
  create_time DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (name),
  KEY {schedules}$look (queue, fingerprint, next_slot, seen_until)
) ENGINE=InnoDB;

-- What the procedures need of a job type besides, as JSON: its retry policy, and who else decides.
ALTER TABLE {job_types} ADD COLUMN settings TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE');

-- 1: a program that registered by the procedures. hipq can't stop its handlers, so what is over its timeout is taken from it.
ALTER TABLE {workers} ADD COLUMN by_sql TINYINT NOT NULL DEFAULT 0;
