-- v_own: the call has its own transaction
DECLARE v_own BOOLEAN;
DECLARE v_id {id};
DECLARE v_table VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
