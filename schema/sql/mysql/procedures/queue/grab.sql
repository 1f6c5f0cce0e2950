-- Locks due jobs of some types for a worker that starts them later: in order, as many as it asks for and the limits have room for.
-- The next job in order is the least of the heads of some ranges of the index: one for each part of the line and each type.
-- Whoever locks a head by its id looks again. What the limits say is judged as a round of hipq work does.
CREATE PROCEDURE {self}(IN p_worker {id}, IN p_types {text}, IN p_n BIGINT, IN p_own BOOLEAN, OUT p_token {id}, OUT p_ids {text})
{traits}
BEGIN
  DECLARE v_settings, v_rate, v_by, v_limits, v_ranges, v_windows, v_zone {text};
  DECLARE v_now, v_at, v_opening DATETIME(6);
  DECLARE v_limit, v_used, v_busy, v_id, v_factor, v_left, v_group_limit, v_group_used BIGINT;
  DECLARE v_paused, v_open, v_full, v_alone, v_suspect, v_more BOOLEAN DEFAULT FALSE;
  DECLARE v_walked, v_taken, v_i BIGINT DEFAULT 0;
  DECLARE v_line VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_part, v_group, v_old_group VARBINARY(255);
  DECLARE v_type VARBINARY(64);
  DECLARE v_key VARBINARY(255);
  DECLARE v_closed {text} DEFAULT ',';
  SET p_token = CAST(UUID() AS CHAR), p_ids = '0';

  SELECT q.settings, q.paused, q.throttle_limit INTO v_settings, v_paused, v_limit FROM {queues} q WHERE q.queue = '{queue}';
  SET v_settings = NULLIF(v_settings, 'NONE'), v_by = JSON_UNQUOTE(JSON_EXTRACT(v_settings, '$.throttle_groups.by')),
    v_limits = JSON_EXTRACT(v_settings, '$.throttle_groups.limits'), v_zone = JSON_EXTRACT(v_settings, '$.zone'),
    v_rate = JSON_EXTRACT(v_settings, '$.rate');
  IF v_limit > 0 OR v_by IS NOT NULL OR v_rate IS NOT NULL THEN
    -- who locks jobs of such a queue takes turns, for a sum over rows says nothing of what another is about to lock
    UPDATE {queues} q SET q.turn = q.turn % 1000000000 + 1 WHERE q.queue = '{queue}';
  END IF;
  SET v_now = UTC_TIMESTAMP(6);
  SELECT COUNT(*), COALESCE(MAX(j.suspect), 0) INTO v_busy, v_alone FROM {jobs} j FORCE INDEX ({jobs}${pick})
  WHERE j.line = 'locked' AND j.part IN ('NONE', 'stop') AND j.worker_id = p_worker;
  SET v_open = NOT v_paused AND NOT v_alone;
  IF v_open THEN
    IF v_rate IS NOT NULL THEN
      CALL {jobs}$rate(v_rate, 0, v_now, v_left);
      -- what is grabbed and not started yet counts when it starts
      SET v_left = v_left - (SELECT COUNT(*) FROM {jobs} j FORCE INDEX ({jobs}${pick}) WHERE j.line = 'locked' AND j.state IN ('initial', 'retry')), p_n = LEAST(p_n, v_left);
    END IF;
    IF v_limit > 0 THEN
      CALL {jobs}$used(p_own, NULL, v_used);
    END IF;
    CALL {jobs}$ranges(p_types, p_worker, v_settings, v_now, v_ranges, v_more);
  END IF;

  WHILE v_open AND v_taken < p_n AND v_walked < 1000 AND JSON_LENGTH(v_ranges) > 0 DO
    SET v_walked = v_walked + 1;
    CALL {jobs}$next(v_ranges, v_full, v_alone, v_closed, v_line, v_part, v_type, v_id);
    SET v_key = NULL;
    IF v_id IS NOT NULL THEN
      -- 0 is no job's id: a row that is found by one id alone stays locked on MariaDB, although the other conditions may not be met
      SELECT j.job_key, j.throttle_factor, j.throttle_group, j.time_windows, j.suspect, j.scheduled_run_time
        INTO v_key, v_factor, v_old_group, v_windows, v_suspect, v_at
      FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id IN (v_id, 0) AND j.line IN ('due', 'held') AND j.state IN ('initial', 'retry') AND j.attempt < 2147483647 {skip_locked};
    END IF;
    -- a row that only hipq work can judge is left to that, and so is one that another transaction holds
    IF v_key IS NOT NULL AND v_key <> '' AND LOCATE(CHAR(0), v_key) = 0 AND v_key = CAST(CONVERT(v_key USING utf8mb4) AS BINARY)
      AND v_suspect = (v_part IN ('suspect', 'suspect free')) THEN
      SET v_group = NULL, v_group_limit = 0, v_opening = v_now;
      IF v_windows <> 'NONE' THEN
        CALL {job}$opening(v_windows, v_zone, v_now, v_opening);
      END IF;
      IF v_by IS NOT NULL AND v_factor > 0 THEN
        SET v_group = v_old_group;
        IF LEFT(v_old_group, LENGTH(v_by) + 1) <> CONCAT(v_by, '=') THEN
          CALL {jobs}$group(v_by, v_id, v_type, v_group);
        END IF;
        CALL {job}$limit(v_by, v_limits, v_group, v_group_limit);
      END IF;
      IF v_opening IS NULL OR v_by IS NOT NULL AND v_factor > 0 AND v_group IS NULL THEN
        SET v_key = NULL; -- unreadable windows, or a group that SQL can't tell
      ELSEIF v_opening > v_now THEN
        UPDATE {jobs} FORCE INDEX (PRIMARY) SET line = 'later', scheduled_run_time = v_opening, wake_time = v_opening, update_time = v_now WHERE id = v_id;
      ELSEIF v_factor > 0 AND v_full THEN
        SET v_key = NULL; -- it waits, and so do all behind it that weigh something
      ELSE
        IF v_group_limit > 0 THEN
          CALL {jobs}$used(p_own, v_group, v_group_used);
        END IF;
        IF v_group_limit > 0 AND (LOCATE(CONCAT(',', HEX(v_group), ','), v_closed) > 0 OR v_group_used > 0 AND v_group_used + v_factor > v_group_limit
          OR v_line = 'due' AND v_more AND EXISTS (SELECT 1 FROM {jobs} j FORCE INDEX ({jobs}${pick}) WHERE j.line = 'held' AND j.part = v_group)) THEN
          SET v_closed = CONCAT(v_closed, HEX(v_group), ',');
          IF v_line = 'due' AND NOT v_suspect THEN
            UPDATE {jobs} FORCE INDEX (PRIMARY) SET line = 'held', throttle_group = v_group WHERE id = v_id;
          END IF;
        ELSEIF v_limit > 0 AND v_factor > 0 AND v_used > 0 AND v_used + v_factor > v_limit THEN
          SET v_full = TRUE;
        ELSE
          SET v_used = v_used + v_factor;
          IF v_suspect AND (v_busy > 0 OR v_taken > 0) THEN
            -- it runs alone, when this worker has nothing else; its room is kept for it
            SET v_alone = TRUE;
          ELSE
            UPDATE {jobs} FORCE INDEX (PRIMARY) SET line = 'locked', worker_id = p_worker, lock_token = p_token, wake_time = NULL,
              throttle_group = COALESCE(v_group, throttle_group) WHERE id = v_id;
            SET p_ids = CONCAT(p_ids, ',', v_id), v_taken = v_taken + 1;
            IF v_suspect THEN
              SET p_n = v_taken;
            END IF;
          END IF;
        END IF;
      END IF;
    END IF;
  END WHILE;
END
