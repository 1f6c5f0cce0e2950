-- When windows open: p_at, or the first instant after it that is inside one. NULL if the windows can't be read. The wall clock
-- decides; what that shows is told by the changes of the zone's offset that hipq has registered, [from, offset] in seconds, for
-- a server may have no time zones loaded. Between two changes the clock runs evenly.
CREATE PROCEDURE {self}(IN p_windows {text}, IN p_zone {text}, IN p_at DATETIME(6), OUT p_opening DATETIME(6))
{traits}
BEGIN
  DECLARE v_n, v_changes, v_zone INT;
  DECLARE v_t, v_opening, v_change, v_offset, v_local, v_now, v_wait, v_i, v_day BIGINT; -- v_t: seconds since 1970, UTC
  DECLARE v_days, v_from, v_to INT;
  DECLARE v_ok, v_inside BOOLEAN;
  DECLARE v_list {text} DEFAULT '[]';
  SET p_opening = p_at;
  find: BEGIN
    IF p_windows = 'NONE' THEN
      LEAVE find;
    END IF;
    SET p_opening = NULL;
    IF NOT JSON_VALID(p_windows) OR JSON_TYPE(p_windows) <> 'ARRAY' OR JSON_LENGTH(p_windows) > 100 THEN
      LEAVE find;
    END IF;
    SET v_n = JSON_LENGTH(p_windows), v_i = 0;
    IF v_n = 0 THEN
      SET p_opening = p_at;
      LEAVE find;
    END IF;
    -- + 0, for MariaDB takes a variable for a text
    WHILE v_i < v_n DO
      IF JSON_TYPE(JSON_EXTRACT(p_windows, CONCAT('$[', v_i, ']'))) <> 'STRING' THEN
        LEAVE find;
      END IF;
      CALL {job}$window(JSON_UNQUOTE(JSON_EXTRACT(p_windows, CONCAT('$[', v_i, ']'))), v_days, v_from, v_to, v_ok);
      IF NOT v_ok THEN
        LEAVE find;
      END IF;
      SET v_list = JSON_ARRAY_APPEND(v_list, '$', v_days + 0, '$', v_from + 0, '$', v_to + 0), v_i = v_i + 1;
    END WHILE;

    SET v_t = TIMESTAMPDIFF(SECOND, '1970-01-01', p_at);
    SET v_changes = COALESCE(JSON_LENGTH(p_zone), 0), v_zone = 0;
    -- the first has no beginning
    WHILE v_zone + 1 < v_changes AND JSON_EXTRACT(p_zone, CONCAT('$[', v_zone + 1, '][0]')) <= v_t DO
      SET v_zone = v_zone + 1;
    END WHILE;
    look: LOOP
      SET v_offset = COALESCE(JSON_EXTRACT(p_zone, CONCAT('$[', v_zone, '][1]')), 0);
      SET v_change = JSON_EXTRACT(p_zone, CONCAT('$[', v_zone + 1, '][0]'));
      SET v_local = v_t + v_offset;
      -- minutes of the week, Sunday first: 1970 began on a Thursday
      SET v_now = FLOOR(v_local / 60) + 4 * 1440;
      SET v_now = v_now - FLOOR(v_now / 10080) * 10080;
      SET v_inside = FALSE, v_wait = 10080, v_i = 0;
      WHILE v_i < v_n AND NOT v_inside DO
        SET v_days = JSON_EXTRACT(v_list, CONCAT('$[', 3 * v_i, ']')), v_from = JSON_EXTRACT(v_list, CONCAT('$[', 3 * v_i + 1, ']')),
          v_to = JSON_EXTRACT(v_list, CONCAT('$[', 3 * v_i + 2, ']')), v_i = v_i + 1, v_day = 0;
        WHILE v_day < 7 DO
          IF v_days = 0 OR v_days & (1 << v_day) THEN
            SET v_opening = (v_day * 1440 + v_from - v_now + 10080) % 10080; -- from now on
            SET v_wait = LEAST(v_wait, v_opening);
            -- it opened less long ago than it lasts
            IF v_opening = 0 OR 10080 - v_opening < v_to - v_from + IF(v_to > v_from, 0, 1440) THEN
              SET v_inside = TRUE;
            END IF;
          END IF;
          SET v_day = v_day + 1;
        END WHILE;
      END WHILE;
      IF v_inside THEN
        LEAVE look;
      END IF;
      SET v_opening = v_t + 60 * v_wait - (v_local - FLOOR(v_local / 60) * 60);
      IF v_change IS NULL OR v_opening < v_change THEN
        SET v_t = v_opening;
        LEAVE look;
      END IF;
      SET v_t = v_change, v_zone = v_zone + 1;
    END LOOP look;
    SET p_opening = IF(v_t = TIMESTAMPDIFF(SECOND, '1970-01-01', p_at), p_at, '1970-01-01' + INTERVAL v_t SECOND);
  END find;
END
