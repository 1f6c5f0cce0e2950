-- Computes when windows open: p_at, or the first later instant inside one; NULL if the windows are invalid. The wall
-- clock decides. It comes from the zone's offset changes that hipq has registered, [from, offset] in seconds, because a
-- server may have no time zones loaded.
CREATE PROCEDURE {self}(IN p_windows {text}, IN p_zone {text}, IN p_at DATETIME(6), OUT p_opening DATETIME(6))
{traits}
BEGIN
  -- a call often meets the same windows at many jobs; it begins with these variables empty
  DECLARE v_week VARBINARY(10080) DEFAULT IF(p_windows = @hipq_windows, @hipq_week, NULL);
  DECLARE v_i, v_zone INT DEFAULT 0;
  DECLARE v_wait INT DEFAULT NULL;
  DECLARE v_t BIGINT DEFAULT TIMESTAMPDIFF(SECOND, '1970-01-01', p_at);
  DECLARE v_local, v_minute, v_change BIGINT;
  IF p_windows = 'NONE' THEN
    SET v_wait = 0, v_week = '';
  ELSEIF v_week IS NULL AND (LENGTH(p_windows) > 2048 OR NOT JSON_VALID(p_windows) OR JSON_TYPE(p_windows) <> 'ARRAY' OR JSON_LENGTH(p_windows) > 64) THEN
    SET v_week = NULL;
  ELSEIF JSON_LENGTH(p_windows) = 0 THEN
    SET v_wait = 0, v_week = '';
  ELSEIF v_week IS NULL THEN
    SET v_week = REPEAT('-', 10080);
    WHILE v_i < JSON_LENGTH(p_windows) DO
      IF JSON_TYPE(JSON_EXTRACT(p_windows, CONCAT('$[', v_i, ']'))) <> 'STRING' THEN
        SET v_week = NULL;
      END IF;
      CALL {job}$window(JSON_UNQUOTE(JSON_EXTRACT(p_windows, CONCAT('$[', v_i, ']'))), v_week);
      SET v_i = v_i + 1;
    END WHILE;
    SET @hipq_windows = p_windows, @hipq_week = v_week;
  END IF;
  SET p_opening = IF(v_week IS NULL, NULL, p_at);
  WHILE v_week IS NOT NULL AND COALESCE(v_wait, 1) > 0 DO
    -- the first offset has no beginning
    WHILE JSON_EXTRACT(p_zone, CONCAT('$[', v_zone + 1, '][0]')) <= v_t DO
      SET v_zone = v_zone + 1;
    END WHILE;
    SET v_change = JSON_EXTRACT(p_zone, CONCAT('$[', v_zone + 1, '][0]'));
    SET v_local = v_t + COALESCE(JSON_EXTRACT(p_zone, CONCAT('$[', v_zone, '][1]')), 0);
    -- minutes of the week: 1970 began on a Thursday
    SET v_minute = (FLOOR(v_local / 60) + 4 * 1440) % 10080;
    SET v_wait = LOCATE('o', CONCAT(v_week, v_week), v_minute + 1) - v_minute - 1;
    IF v_wait > 0 THEN
      -- between two changes the clock runs evenly
      SET v_t = v_t + 60 * v_wait - (v_local - FLOOR(v_local / 60) * 60);
      SET v_t = LEAST(v_t, COALESCE(v_change, v_t));
      SET p_opening = '1970-01-01' + INTERVAL v_t SECOND;
    END IF;
  END WHILE;
END
