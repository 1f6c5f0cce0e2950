-- How many slots a worker has in each lane that has a limit, as JSON.
ALTER TABLE {workers} ADD COLUMN lanes TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE');

ALTER TABLE {queues}
  -- what else the config says of the queue, as JSON
  ADD COLUMN settings TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- when jobs of a queue with a rate were started lately, as JSON
  ADD COLUMN starts TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE');
