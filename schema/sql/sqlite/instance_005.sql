-- The shards of a queue: who starts jobs of a queue with a limit, groups or a rate takes turns with the others at its shard alone.
CREATE TABLE IF NOT EXISTS {shards} (
  queue         TEXT NOT NULL,
  -- 1000 times the division, and behind that which shard it is: 8003 is shard 3 of 8
  shard         INTEGER NOT NULL,
  -- written by every round that takes turns: the one row that makes them do so
  turn          INTEGER NOT NULL DEFAULT 0,
  -- when jobs of a queue with a rate were started lately, as JSON
  starts        TEXT NOT NULL DEFAULT 'NONE',
  -- what it has of the queue's limit, and is to have; the same of the rate's starts. Of no account where there is one shard
  capacity      INTEGER NOT NULL DEFAULT 0,
  target        INTEGER NOT NULL DEFAULT 0,
  rate_capacity INTEGER NOT NULL DEFAULT 0,
  rate_target   INTEGER NOT NULL DEFAULT 0,
  -- what it asks the others for, as JSON
  demand        TEXT NOT NULL DEFAULT 'NONE',
  PRIMARY KEY (queue, shard)
);

INSERT OR IGNORE INTO {shards} (queue, shard, turn, starts) SELECT queue, 1000, turn, starts FROM {queues};

-- How its jobs are divided into shards, as a number: hipq init alone changes it.
ALTER TABLE {queues} ADD COLUMN division INTEGER NOT NULL DEFAULT 1;
