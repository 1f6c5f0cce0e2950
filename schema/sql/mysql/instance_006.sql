-- These are the shards' now. A step of its own: one that is interrupted behind it finds nothing to do.
ALTER TABLE {queues} DROP COLUMN starts, DROP COLUMN turn;

DELETE FROM {queues} WHERE queue = 'NONE';
