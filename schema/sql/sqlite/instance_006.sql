-- These are the shards' now.
ALTER TABLE {queues} DROP COLUMN starts;
ALTER TABLE {queues} DROP COLUMN turn;

DELETE FROM {queues} WHERE queue = 'NONE';
