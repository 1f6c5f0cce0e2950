CREATE TABLE IF NOT EXISTS {owners} (
  table_name  TEXT NOT NULL PRIMARY KEY,
  instance    TEXT NOT NULL,
  queue       TEXT NOT NULL,
  version     INTEGER NOT NULL,
  claim_order TEXT NOT NULL DEFAULT '',
  create_time TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')
) STRICT;
