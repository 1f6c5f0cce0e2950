-- Which instance and queue own a table, and the version of its layout.
CREATE TABLE IF NOT EXISTS {owners} (
  table_name  TEXT NOT NULL PRIMARY KEY,
  instance    TEXT NOT NULL,
  queue       TEXT NOT NULL,
  version     INTEGER NOT NULL,
  -- of a queue's table: the order of its claims that its run_rank is made for
  claim_order TEXT NOT NULL DEFAULT '',
  create_time TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')
) STRICT;
