-- The shards of a queue: who starts jobs of a queue with a limit, groups or a rate takes turns with the others at its shard alone.
CREATE TABLE IF NOT EXISTS {shards} (
  queue         VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- 1000 times the division, and behind that which shard it is: 8003 is shard 3 of 8
  shard         INT NOT NULL,
  -- written by every round that takes turns: the one row that makes them do so
  turn          BIGINT NOT NULL DEFAULT 0,
  -- when jobs of a queue with a rate were started lately, as JSON
  starts        TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  -- what it has of the queue's limit, and is to have; the same of the rate's starts. Of no account where there is one shard
  capacity      BIGINT NOT NULL DEFAULT 0,
  target        BIGINT NOT NULL DEFAULT 0,
  rate_capacity BIGINT NOT NULL DEFAULT 0,
  rate_target   BIGINT NOT NULL DEFAULT 0,
  -- what it asks the others for, as JSON
  demand        TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('NONE'),
  PRIMARY KEY (queue, shard)
) ENGINE=InnoDB;

INSERT IGNORE INTO {shards} (queue, shard, turn, starts) SELECT queue, 1000, turn, starts FROM {queues};

-- How its jobs are divided into shards, as a number: hipq init alone changes it.
ALTER TABLE {queues} ADD COLUMN division INT NOT NULL DEFAULT 1;
