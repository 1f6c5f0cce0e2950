-- The instance and queue that own each table, and the version of its layout.
CREATE TABLE IF NOT EXISTS {owners} (
  table_name  VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  instance    VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  queue       VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  version     INT NOT NULL,
  -- for a queue's table: the claim order that run_rank is generated for
  claim_order VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  create_time DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (table_name)
) ENGINE=InnoDB;
