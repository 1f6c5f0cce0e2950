-- How far an attempt has come, as its handler says while it works: of the one that progress_attempt names, 0 is that none has
-- said anything. An attempt that begins needn't write these, for it has another number. There is no constraint on them, for
-- nothing goes by what they say. They are the last, for only so MySQL before 8.0.29 adds them at once. One statement, so that it
-- happens as a whole.
ALTER TABLE {jobs}
  ADD COLUMN progress TINYINT UNSIGNED NOT NULL DEFAULT 0,
  ADD COLUMN progress_note VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'NONE',
  ADD COLUMN progress_attempt INT UNSIGNED NOT NULL DEFAULT 0,
  ADD COLUMN progress_time DATETIME(6) NULL;
