-- How many slots a worker has in each lane that has a limit, as JSON.
ALTER TABLE {workers} ADD COLUMN lanes TEXT NOT NULL DEFAULT 'NONE';
-- What else the config says of the queue, as JSON.
ALTER TABLE {queues} ADD COLUMN settings TEXT NOT NULL DEFAULT 'NONE';
-- When jobs of a queue with a rate were started lately, as JSON.
ALTER TABLE {queues} ADD COLUMN starts TEXT NOT NULL DEFAULT 'NONE';
