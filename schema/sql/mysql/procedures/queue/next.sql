-- The next job in order over some ranges of a shard, and where it stands; NULL where there is none. Ranges that have ended are taken out of
-- the list; so are those of jobs that weigh something, if the queue is p_full; of the suspects, once one keeps its room (p_kept); and of
-- the groups that are p_closed.
CREATE PROCEDURE {self}(
  IN p_place INT, INOUT p_ranges {text}, IN p_full BOOLEAN, IN p_kept BOOLEAN, IN p_closed {text}, OUT p_line VARCHAR(16) CHARACTER SET ascii, OUT p_part VARBINARY(255),
  OUT p_type VARBINARY(64), OUT p_id BIGINT)
{traits}
BEGIN
  DECLARE v_i, v_best INT DEFAULT 0;
  DECLARE v_range {text};
  DECLARE v_line VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_part VARBINARY(255);
  DECLARE v_type VARBINARY(64);
  DECLARE v_rank, v_id, v_best_rank, v_last_rank, v_last_id BIGINT;
  DECLARE v_at, v_best_at, v_last_at DATETIME(6);
  DECLARE v_ended BOOLEAN;
  SET p_id = NULL;
  WHILE v_i < JSON_LENGTH(p_ranges) DO
    SET v_range = JSON_EXTRACT(p_ranges, CONCAT('$[', v_i, ']'));
    SET v_line = JSON_UNQUOTE(JSON_EXTRACT(v_range, '$[0]')), v_part = UNHEX(JSON_UNQUOTE(JSON_EXTRACT(v_range, '$[1]'))),
      v_type = UNHEX(JSON_UNQUOTE(JSON_EXTRACT(v_range, '$[2]')));
    -- a head that was not handed out yet has a seventh member; else it is the last that was
    SET v_ended = p_full AND v_part NOT IN ('free', 'suspect free') OR v_line = 'due' AND p_kept AND v_part IN ('suspect', 'suspect free')
      OR v_line = 'held' AND LOCATE(CONCAT(',', HEX(v_part), ','), p_closed) > 0;
    IF NOT v_ended AND JSON_LENGTH(v_range) IN (3, 6) THEN
      SET v_last_rank = COALESCE(JSON_EXTRACT(v_range, '$[3]'), -9223372036854775808),
        v_last_at = COALESCE(JSON_UNQUOTE(JSON_EXTRACT(v_range, '$[4]')), '1970-01-01'), v_last_id = COALESCE(JSON_EXTRACT(v_range, '$[5]'), 0);
      SET v_id = NULL;
      IF v_line = 'due' THEN
        SELECT j.run_rank, j.scheduled_run_time, j.id INTO v_rank, v_at, v_id FROM {jobs} j FORCE INDEX ({jobs}${pick})
        WHERE j.line = 'due' AND j.shard = p_place AND j.part = v_part AND j.job_type = v_type
          AND (j.run_rank > v_last_rank OR j.run_rank = v_last_rank AND j.scheduled_run_time > v_last_at
            OR j.run_rank = v_last_rank AND j.scheduled_run_time = v_last_at AND j.id > v_last_id)
        ORDER BY j.run_rank, j.scheduled_run_time, j.id LIMIT 1;
      ELSE
        SELECT j.run_rank, j.scheduled_run_time, j.id INTO v_rank, v_at, v_id FROM {jobs} j FORCE INDEX ({jobs}${pick})
        WHERE j.line = 'held' AND j.shard = p_place AND j.part = v_part AND j.job_type = v_type
          AND (j.run_rank > v_last_rank OR j.run_rank = v_last_rank AND j.scheduled_run_time > v_last_at
            OR j.run_rank = v_last_rank AND j.scheduled_run_time = v_last_at AND j.id > v_last_id)
        ORDER BY j.run_rank, j.scheduled_run_time, j.id LIMIT 1;
      END IF;
      SET v_ended = v_id IS NULL;
      IF NOT v_ended THEN
        SET v_range = JSON_ARRAY(v_line, HEX(v_part), HEX(v_type), v_rank + 0, CAST(v_at AS CHAR), v_id + 0, 'head');
        SET p_ranges = JSON_SET(p_ranges, CONCAT('$[', v_i, ']'), JSON_EXTRACT(v_range, '$'));
      END IF;
    END IF;
    IF v_ended THEN
      SET p_ranges = JSON_REMOVE(p_ranges, CONCAT('$[', v_i, ']'));
    ELSE
      SET v_rank = JSON_EXTRACT(v_range, '$[3]'), v_at = JSON_UNQUOTE(JSON_EXTRACT(v_range, '$[4]')), v_id = JSON_EXTRACT(v_range, '$[5]');
      IF p_id IS NULL OR v_rank < v_best_rank OR v_rank = v_best_rank AND (v_at < v_best_at OR v_at = v_best_at AND v_id < p_id) THEN
        SET p_id = v_id, p_line = v_line, p_part = v_part, p_type = v_type, v_best = v_i, v_best_rank = v_rank, v_best_at = v_at;
      END IF;
      SET v_i = v_i + 1;
    END IF;
  END WHILE;
  IF p_id IS NOT NULL THEN
    SET p_ranges = JSON_REMOVE(p_ranges, CONCAT('$[', v_best, '][6]')); -- it is handed out
  END IF;
END
