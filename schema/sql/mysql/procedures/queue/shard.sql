-- Finds the next shard in which there may be something for a worker to grab, or to be decided about, from p_begin on and round to that
-- again; NULL if there is none any more. p_passed is how many were passed. Shards with nothing at all in them are skipped by a dive into
-- the index. p_held: the queue has groups, which hold jobs back.
CREATE PROCEDURE {self}(IN p_types {text}, IN p_division INT, IN p_held BOOLEAN, IN p_begin INT, INOUT p_passed INT, OUT p_place INT)
{traits}
BEGIN
  DECLARE v_n INT DEFAULT p_division % 1000;
  DECLARE v_i, v_at, v_end, v_next, v_due, v_error, v_held INT;
  DECLARE v_there VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_type VARBINARY(64);
  SET p_place = NULL;
  WHILE p_place IS NULL AND p_passed < v_n DO
    SET v_at = 1000 * p_division + (p_begin + p_passed) % v_n, v_end = 1000 * p_division + IF(p_begin + p_passed < v_n, v_n, p_begin);
    SELECT (SELECT MIN(j.shard) FROM {jobs} j FORCE INDEX ({jobs}${pick}) WHERE j.line = 'due' AND j.shard >= v_at AND j.shard < v_end),
      (SELECT MIN(j.shard) FROM {jobs} j FORCE INDEX ({jobs}${pick}) WHERE j.line = 'error' AND j.shard >= v_at AND j.shard < v_end),
      (SELECT MIN(j.shard) FROM {jobs} j FORCE INDEX ({jobs}${pick}) WHERE j.line = 'held' AND j.shard >= v_at AND j.shard < v_end AND p_held)
      INTO v_due, v_error, v_held;
    SET v_next = LEAST(COALESCE(v_due, v_end), COALESCE(v_error, v_end), COALESCE(v_held, v_end));
    SET p_passed = p_passed + v_next - v_at;
    IF v_next < v_end THEN
      SET p_passed = p_passed + 1, v_there = IF(v_held = v_next, 'held', NULL), v_i = 0;
      -- state, which the index lacks, for else MySQL would scan the whole index
      WHILE v_there IS NULL AND v_i < JSON_LENGTH(p_types) DO
        SET v_type = JSON_UNQUOTE(JSON_EXTRACT(p_types, CONCAT('$[', v_i, ']'))), v_i = v_i + 1;
        SELECT j.state INTO v_there FROM {jobs} j FORCE INDEX ({jobs}${pick}) WHERE j.shard = v_next AND j.job_type = v_type
          AND (j.line = 'due' AND j.part IN ('NONE', 'free', 'suspect', 'suspect free') OR j.line = 'error' AND j.part = 'NONE') LIMIT 1;
      END WHILE;
      SET p_place = IF(v_there IS NULL, NULL, v_next);
    END IF;
  END WHILE;
END
