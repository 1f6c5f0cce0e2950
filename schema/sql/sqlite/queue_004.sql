-- Rows that the constraints below would refuse, for former layouts took more: first what only has to be written otherwise.
-- Bytes are no text; a key of bytes beside the same one as a text stays, and is seen to below.
UPDATE OR IGNORE {jobs} SET
  job_type = CAST(job_type AS TEXT), job_data = CAST(job_data AS TEXT), job_key = CAST(job_key AS TEXT),
  time_windows = CAST(time_windows AS TEXT), throttle_group = CAST(throttle_group AS TEXT),
  shard_key = CAST(shard_key AS TEXT), worker_id = CAST(worker_id AS TEXT), lock_token = CAST(lock_token AS TEXT),
  wish = CAST(wish AS TEXT), attempt_token = CAST(attempt_token AS TEXT), error = CAST(error AS TEXT),
  result = CAST(result AS TEXT)
WHERE 'blob' IN (typeof(job_type), typeof(job_data), typeof(job_key), typeof(time_windows), typeof(throttle_group), typeof(shard_key),
  typeof(worker_id), typeof(lock_token), typeof(wish), typeof(attempt_token), typeof(error), typeof(result));

UPDATE OR IGNORE {jobs} SET
  scheduled_run_time = iif({is_time scheduled_run_time} OR state <> 'final', scheduled_run_time, {now}),
  start_time = iif({is_time start_time}, start_time, NULL),
  create_time = iif({is_time create_time}, create_time, {now}),
  update_time = iif({is_time update_time}, update_time, {now}),
  wake_time = CASE WHEN line NOT IN ('later', 'waiting') THEN NULL WHEN {is_time wake_time} THEN wake_time
    WHEN line = 'later' THEN scheduled_run_time ELSE {now} END,
  throttle_group = iif(throttle_group = '', 'NONE', throttle_group),
  stopping = stopping <> 0
WHERE NOT {is_time scheduled_run_time} OR NOT {is_time create_time} OR NOT {is_time update_time}
  OR start_time IS NOT NULL AND NOT {is_time start_time} OR wake_time IS NOT NULL AND NOT {is_time wake_time}
  OR (wake_time IS NOT NULL) <> (line IN ('later', 'waiting')) OR throttle_group = '' OR stopping NOT IN (0, 1);

-- The table is made anew, for SQLite changes no constraint of one that is there.
CREATE TABLE {jobs}$new (
  id                 INTEGER PRIMARY KEY AUTOINCREMENT, -- without AUTOINCREMENT a purged id would be used again
  job_type           TEXT NOT NULL,
  job_data           TEXT NOT NULL DEFAULT 'NONE',
  job_key            TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
  state              TEXT NOT NULL DEFAULT 'initial',
  -- where the row stands for the queries that poll: only 'due' is in the range from which candidates are read
  line               TEXT NOT NULL DEFAULT 'new',
  -- NULL in a row inserted by plain SQL until a tick takes it in: the job type's default
  timeout            INTEGER NULL,
  priority           INTEGER NULL,
  throttle_factor    INTEGER NULL,
  time_windows       TEXT NULL,
  throttle_group     TEXT NOT NULL DEFAULT 'NONE',
  shard_key          TEXT NOT NULL DEFAULT 'NONE',
  attempt            INTEGER NOT NULL DEFAULT 0,
  scheduled_run_time TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  -- when somebody must look at the row though nothing touches it: 'later' is promoted, 'waiting' times out; else NULL
  wake_time          TEXT NULL,
  -- when the current attempt began; before the first, when the job was added (of plain SQL: NULL), so that the row need not grow
  start_time         TEXT NULL,
  worker_id          TEXT NOT NULL DEFAULT 'NONE',
  lock_token         TEXT NOT NULL DEFAULT 'NONE',
  -- 1: an operator wants it to be stopped
  stopping           INTEGER NOT NULL DEFAULT 0,
  -- 1: the last attempt ended with its worker
  suspect            INTEGER NOT NULL DEFAULT 0,
  -- what a handler said of its retry, for as long as the job waits for the decision: 'never', or a delay such as 5m0s
  wish               TEXT NOT NULL DEFAULT 'NONE',
  -- 1: an answer says that the attempt has failed, and its handler runs on
  answered           INTEGER NOT NULL DEFAULT 0,
  -- the lock of the latest attempt, also when lock_token has changed since
  attempt_token      TEXT NOT NULL DEFAULT 'NONE',
  error              TEXT NOT NULL DEFAULT 'NONE',
  result             TEXT NOT NULL DEFAULT 'NONE',
  -- what the handler printed in an attempt that has no outcome in the activity yet
  output             TEXT NOT NULL DEFAULT 'NONE',
  -- the final job that this one repeats, and the latest that repeats this one; NULL: none
  retry_of           INTEGER NULL,
  retried_as         INTEGER NULL,
  create_time        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  update_time        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'),
  live               INTEGER AS (iif(state = 'final', NULL, 1)) STORED,
  -- where in its line: the jobs that a full group holds back, those that run alone, those that no limit holds back, those to
  -- be stopped
  part               TEXT AS (CASE line WHEN 'held' THEN throttle_group
    WHEN 'due' THEN iif(throttle_factor = 0, iif(suspect = 1, 'suspect free', 'free'), iif(suspect = 1, 'suspect', 'NONE'))
    WHEN 'locked' THEN iif(stopping = 1, 'stop', 'NONE') ELSE 'NONE' END) VIRTUAL,
  -- of the default order: of another it is made anew after this
  run_rank           INTEGER AS (priority) VIRTUAL,

  -- A row that hipq could not work with is refused, whoever writes it; one that is final may keep what made it fail. The names
  -- tell an application what is wrong.
  CONSTRAINT {jobs}$line CHECK {is_placed},
  CONSTRAINT {jobs}$timeout CHECK (timeout IS NOT NULL AND timeout BETWEEN 1 AND 316224000 OR timeout IS NULL AND line = 'new' OR state = 'final'),
  CONSTRAINT {jobs}$priority CHECK (priority IS NOT NULL AND priority BETWEEN -2147483647 AND 2147483647 OR priority IS NULL AND line = 'new' OR state = 'final'),
  CONSTRAINT {jobs}$factor CHECK (throttle_factor IS NOT NULL AND throttle_factor BETWEEN 0 AND 2147483647 OR throttle_factor IS NULL AND line = 'new' OR state = 'final'),
  CONSTRAINT {jobs}$windows CHECK (time_windows IS NOT NULL OR line = 'new' OR state = 'final'),
  CONSTRAINT {jobs}$group CHECK (line <> 'held' OR throttle_group <> ''),
  CONSTRAINT {jobs}$size CHECK (length(CAST(job_data AS BLOB)) <= 1048576 OR state = 'final'),
  CONSTRAINT {jobs}$attempt CHECK (attempt BETWEEN 0 AND 2147483647),
  CONSTRAINT {jobs}$run_time CHECK {is_time scheduled_run_time},
  CONSTRAINT {jobs}$wake CHECK (wake_time IS NULL AND line NOT IN ('later', 'waiting') OR line IN ('later', 'waiting') AND {is_time wake_time}),
  CONSTRAINT {jobs}$start CHECK (start_time IS NULL OR {is_time start_time}),
  CONSTRAINT {jobs}$create CHECK {is_time create_time},
  CONSTRAINT {jobs}$update CHECK {is_time update_time},
  CONSTRAINT {jobs}$stopping CHECK (stopping IN (0, 1)),
  CONSTRAINT {jobs}$suspect CHECK (suspect IN (0, 1)),
  -- What MySQL's types see to. The highest id of all would leave none for the next; bytes are never equal to a text, so a key
  -- that was bound as bytes would be another.
  CONSTRAINT {jobs}$id CHECK (id BETWEEN 1 AND 4611686018427387903),
  CONSTRAINT {jobs}$job_type CHECK (typeof(job_type) = 'text' AND length(CAST(job_type AS BLOB)) <= 64),
  CONSTRAINT {jobs}$job_key CHECK (typeof(job_key) = 'text' AND length(CAST(job_key AS BLOB)) <= 255),
  CONSTRAINT {jobs}$job_data CHECK (typeof(job_data) = 'text'),
  CONSTRAINT {jobs}$result CHECK (typeof(result) = 'text'),
  CONSTRAINT {jobs}$retries CHECK (typeof(retry_of) IN ('integer', 'null') AND typeof(retried_as) IN ('integer', 'null')),
  CONSTRAINT {jobs}$number CHECK (typeof(timeout) IN ('integer', 'null') AND typeof(priority) IN ('integer', 'null')
    AND typeof(throttle_factor) IN ('integer', 'null') AND typeof(attempt) = 'integer' AND typeof(stopping) = 'integer' AND typeof(suspect) = 'integer'),
  CONSTRAINT {jobs}$text CHECK (typeof(time_windows) IN ('text', 'null') AND typeof(throttle_group) = 'text' AND typeof(shard_key) = 'text'
    AND typeof(worker_id) = 'text' AND typeof(lock_token) = 'text' AND typeof(attempt_token) = 'text' AND typeof(wish) = 'text'
    AND typeof(error) = 'text' AND typeof(output) = 'text')
);

INSERT OR IGNORE INTO {jobs}$new (
  id, job_type, job_data, job_key, state, line, timeout, priority, throttle_factor, time_windows, throttle_group, shard_key,
  attempt, scheduled_run_time, wake_time, start_time, worker_id, lock_token, stopping, wish, attempt_token, error, result,
  create_time, update_time)
SELECT
  id, job_type, job_data, job_key, state, line, timeout, priority, throttle_factor, time_windows, throttle_group, shard_key,
  attempt, scheduled_run_time, wake_time, start_time, worker_id, lock_token, stopping, wish, attempt_token, error, result,
  create_time, update_time
FROM {jobs} ORDER BY id;

-- No id is used again, also not that of a purged job.
DELETE FROM sqlite_sequence WHERE name = '{jobs}$new';
INSERT INTO sqlite_sequence (name, seq) SELECT '{jobs}$new',
  CASE WHEN seq <= 4611686018427387903 THEN seq ELSE (SELECT COALESCE(MAX(id), 0) FROM {jobs} WHERE id <= 4611686018427387903) END
FROM sqlite_sequence WHERE name = '{jobs}';

-- What the constraints have refused can't be a job, and fails, with the reason. Where the id can't be either, it gets another.
INSERT INTO {jobs}$new (
  id, job_type, job_data, job_key, state, line, timeout, priority, throttle_factor, time_windows, throttle_group, shard_key,
  attempt, scheduled_run_time, wake_time, start_time, worker_id, lock_token, stopping, wish, attempt_token, error, result,
  create_time, update_time)
SELECT
  iif(id BETWEEN 1 AND 4611686018427387903, id, NULL), CAST(substr(CAST(job_type AS BLOB), 1, 64) AS TEXT), CAST(job_data AS TEXT),
  CAST(substr(CAST(job_key AS BLOB), 1, 255) AS TEXT), 'final', 'failed', iif(typeof(timeout) = 'integer', timeout, NULL),
  iif(typeof(priority) = 'integer', priority, NULL), iif(typeof(throttle_factor) = 'integer', throttle_factor, NULL),
  CAST(time_windows AS TEXT), CAST(throttle_group AS TEXT), CAST(shard_key AS TEXT),
  iif(typeof(attempt) = 'integer', min(max(attempt, 0), 2147483647), 0),
  iif({is_time scheduled_run_time}, scheduled_run_time, {now}), NULL, iif({is_time start_time}, start_time, NULL), 'NONE', 'NONE', 0,
  'NONE', CAST(attempt_token AS TEXT), 'not a valid job, says layout 4: ' || CASE
    WHEN NOT {is_placed} THEN 'line ' || line || ' does not go with state ' || state
    WHEN id NOT BETWEEN 1 AND 4611686018427387903 THEN 'its id was ' || id
    WHEN timeout NOT BETWEEN 1 AND 316224000 THEN 'timeout ' || timeout || ' is not a number of seconds from 1 to 316224000'
    WHEN throttle_factor NOT BETWEEN 0 AND 2147483647 THEN 'throttle_factor ' || throttle_factor || ' is not from 0 to 2147483647'
    WHEN priority NOT BETWEEN -2147483647 AND 2147483647 THEN 'priority ' || priority || ' is not from -2147483647 to 2147483647'
    WHEN attempt NOT BETWEEN 0 AND 2147483647 THEN 'attempt ' || attempt || ' is not from 0 to 2147483647'
    WHEN length(CAST(job_data AS BLOB)) > 1048576 THEN 'job_data has ' || length(CAST(job_data AS BLOB)) || ' bytes, allowed are 1048576'
    WHEN NOT {is_time scheduled_run_time} THEN 'scheduled_run_time ' || scheduled_run_time || ' is no time since 1970'
    WHEN typeof(job_type) = 'blob' OR typeof(job_key) = 'blob' THEN 'another job that is not final has its type and key'
    ELSE 'a column has no value that it may have' END,
  CAST(result AS TEXT), iif({is_time create_time}, create_time, {now}), {now}
FROM {jobs} WHERE id NOT IN (SELECT id FROM {jobs}$new) ORDER BY id NOT BETWEEN 1 AND 4611686018427387903, id;

INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key, error)
SELECT update_time, 'job', 'failed', '{queue}', id, job_type, job_key, error
FROM {jobs}$new WHERE line = 'failed' AND error LIKE 'not a valid job, says layout 4: %';

DROP TABLE {jobs};
-- else a view of somebody's on the table, which is gone at this moment, would be in the way
PRAGMA legacy_alter_table = ON;
ALTER TABLE {jobs}$new RENAME TO {jobs};
PRAGMA legacy_alter_table = OFF;

CREATE UNIQUE INDEX {jobs}$live ON {jobs} (job_type, job_key, live);
CREATE INDEX {jobs}$pick ON {jobs} (line, part, job_type, run_rank, scheduled_run_time, id);
CREATE INDEX {jobs}$wake ON {jobs} (wake_time) WHERE wake_time IS NOT NULL;
