-- How far an attempt has come, as its handler says while it works: of the one that progress_attempt names, 0 is that none has
-- said anything. An attempt that begins needn't write these, for it has another number. There is no constraint on them, for
-- nothing goes by what they say.
ALTER TABLE {jobs} ADD COLUMN progress INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {jobs} ADD COLUMN progress_note TEXT NOT NULL DEFAULT 'NONE';
ALTER TABLE {jobs} ADD COLUMN progress_attempt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {jobs} ADD COLUMN progress_time TEXT NULL;
