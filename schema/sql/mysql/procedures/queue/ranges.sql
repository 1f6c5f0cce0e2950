-- The ranges of the index in which a worker's next jobs in a shard stand, [line, part, type, rank, time, id] each with the place of the last
-- that was seen: texts of any bytes in hexadecimal. p_more: there may be others that hold jobs back. Before that it takes
-- the retry decisions that can't wait for a tick of hipq work.
CREATE PROCEDURE {self}(IN p_place INT, IN p_types {text}, IN p_worker {id}, IN p_settings {text}, IN p_now DATETIME(6), OUT p_ranges {text}, OUT p_more BOOLEAN)
{traits}
BEGIN
  DECLARE v_type VARBINARY(64);
  DECLARE v_group, v_begin VARBINARY(255);
  DECLARE v_i, v_j, v_groups INT DEFAULT 0;
  DECLARE v_around, v_error, v_free, v_suspect, v_suspect_free BOOLEAN DEFAULT FALSE;
  DECLARE v_parts {text} DEFAULT '[]';
  SET p_ranges = '[]', p_more = FALSE;
  -- the groups that hold jobs back, a hundred at most, from a random one on
  IF JSON_EXTRACT(p_settings, '$.throttle_groups') IS NOT NULL THEN
    SET v_begin = CONCAT(JSON_UNQUOTE(JSON_EXTRACT(p_settings, '$.throttle_groups.by')), '=', CHAR(FLOOR(RAND() * 128))), v_group = v_begin;
    groups_: WHILE v_groups < 100 DO
      SET v_group = (SELECT MIN(j.part) FROM {jobs} j FORCE INDEX ({jobs}${pick}) WHERE j.line = 'held' AND j.shard = p_place AND j.part > v_group);
      IF v_group IS NULL AND NOT v_around THEN
        SET v_around = TRUE, v_group = '';
      ELSEIF v_group IS NULL OR v_around AND v_group > v_begin THEN
        LEAVE groups_;
      ELSE
        SET v_parts = JSON_ARRAY_APPEND(v_parts, '$', HEX(v_group)), v_groups = v_groups + 1;
      END IF;
    END WHILE groups_;
    SET p_more = v_groups = 100;
  END IF;
  WHILE v_i < JSON_LENGTH(p_types) DO
    SET v_type = JSON_UNQUOTE(JSON_EXTRACT(p_types, CONCAT('$[', v_i, ']'))), v_i = v_i + 1, v_j = 0;
    SELECT EXISTS (SELECT 1 FROM {jobs} FORCE INDEX ({jobs}${pick}) WHERE line = 'error' AND shard = p_place AND part = 'NONE' AND job_type = v_type)
      INTO v_error;
    IF v_error THEN
      CALL {jobs}$decide(p_place, v_type, p_worker, p_now);
    END IF;
    SELECT EXISTS (SELECT 1 FROM {jobs} FORCE INDEX ({jobs}${pick}) WHERE line = 'due' AND shard = p_place AND part = 'free' AND job_type = v_type),
      EXISTS (SELECT 1 FROM {jobs} FORCE INDEX ({jobs}${pick}) WHERE line = 'due' AND shard = p_place AND part = 'suspect' AND job_type = v_type),
      EXISTS (SELECT 1 FROM {jobs} FORCE INDEX ({jobs}${pick}) WHERE line = 'due' AND shard = p_place AND part = 'suspect free' AND job_type = v_type)
      INTO v_free, v_suspect, v_suspect_free;
    SET p_ranges = JSON_ARRAY_APPEND(p_ranges, '$', JSON_ARRAY('due', HEX('NONE'), HEX(v_type)));
    IF v_free THEN
      SET p_ranges = JSON_ARRAY_APPEND(p_ranges, '$', JSON_ARRAY('due', HEX('free'), HEX(v_type)));
    END IF;
    IF v_suspect THEN
      SET p_ranges = JSON_ARRAY_APPEND(p_ranges, '$', JSON_ARRAY('due', HEX('suspect'), HEX(v_type)));
    END IF;
    IF v_suspect_free THEN
      SET p_ranges = JSON_ARRAY_APPEND(p_ranges, '$', JSON_ARRAY('due', HEX('suspect free'), HEX(v_type)));
    END IF;
    WHILE v_j < v_groups DO
      SET p_ranges = JSON_ARRAY_APPEND(p_ranges, '$', JSON_ARRAY('held', JSON_UNQUOTE(JSON_EXTRACT(v_parts, CONCAT('$[', v_j, ']'))), HEX(v_type))), v_j = v_j + 1;
    END WHILE;
  END WHILE;
END
