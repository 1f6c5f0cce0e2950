-- Reads one time window: the days as a set, Sunday first (0 stands for all), and the minutes of the day from which and up to
-- which it is open. p_ok says whether it can be one.
CREATE PROCEDURE {self}(IN p_text {text}, OUT p_days INT, OUT p_from INT, OUT p_to INT, OUT p_ok BOOLEAN)
{traits}
BEGIN
  DECLARE v_text, v_days, v_span VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE v_part VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE v_day, v_last INT;
  SET p_days = 0, p_from = NULL, p_to = NULL, p_ok = FALSE;
  body: BEGIN
    IF p_text IS NULL OR CHAR_LENGTH(p_text) > 200 THEN
      LEAVE body;
    END IF;
    SET v_text = TRIM(REGEXP_REPLACE(LOWER(p_text), '[ \\t\\n\\r]+', ' '));
    IF NOT v_text REGEXP
      '^((sun|mon|tue|wed|thu|fri|sat)(-(sun|mon|tue|wed|thu|fri|sat))?(,(sun|mon|tue|wed|thu|fri|sat)(-(sun|mon|tue|wed|thu|fri|sat))?)* )?[0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]$' THEN
      LEAVE body;
    END IF;
    SET v_span = RIGHT(v_text, 11), v_days = LEFT(v_text, GREATEST(CHAR_LENGTH(v_text) - 12, 0));
    SET p_from = 60 * LEFT(v_span, 2) + SUBSTRING(v_span, 4, 2), p_to = 60 * SUBSTRING(v_span, 7, 2) + RIGHT(v_span, 2);
    IF p_from >= 1440 OR p_to > 1440 OR p_from = p_to THEN
      LEAVE body;
    END IF;
    SET p_to = p_to % 1440;
    WHILE v_days <> '' DO
      SET v_part = SUBSTRING_INDEX(v_days, ',', 1), v_days = SUBSTRING(v_days, CHAR_LENGTH(v_part) + 2);
      SET v_day = FIELD(LEFT(v_part, 3), 'sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat') - 1;
      SET v_last = FIELD(RIGHT(v_part, 3), 'sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat') - 1;
      IF v_day = v_last AND CHAR_LENGTH(v_part) > 3 THEN
        LEAVE body; -- one day, or seven: nobody knows
      END IF;
      SET p_days = p_days | (1 << v_day);
      WHILE v_day <> v_last DO
        SET v_day = (v_day + 1) % 7, p_days = p_days | (1 << v_day);
      END WHILE;
    END WHILE;
    IF p_days = 127 THEN
      SET p_days = 0;
    END IF;
    SET p_ok = TRUE;
  END body;
END
