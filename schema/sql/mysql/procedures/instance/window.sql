-- Marks a time window in a week of minutes from Sunday 00:00: one byte each, o if open. NULL if the window is invalid.
CREATE PROCEDURE {self}(IN p_text {text}, INOUT p_week VARBINARY(10080))
{traits}
BEGIN
  DECLARE v_text, v_days, v_part VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE v_from, v_to, v_n, v_begin, v_over INT;
  DECLARE v_day, v_last INT;
  SET v_text = TRIM(REGEXP_REPLACE(LOWER(LEFT(p_text, 200)), '[ \\t\\n\\r]+', ' '));
  IF v_text REGEXP
    '^((sun|mon|tue|wed|thu|fri|sat)(-(sun|mon|tue|wed|thu|fri|sat))?(,(sun|mon|tue|wed|thu|fri|sat)(-(sun|mon|tue|wed|thu|fri|sat))?)* )?[0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]$' THEN
    SET v_from = 60 * LEFT(RIGHT(v_text, 11), 2) + LEFT(RIGHT(v_text, 8), 2), v_to = 60 * LEFT(RIGHT(v_text, 5), 2) + RIGHT(v_text, 2);
    SET v_days = IF(CHAR_LENGTH(v_text) = 11, 'sun-sat', LEFT(v_text, CHAR_LENGTH(v_text) - 12)), v_n = v_to - v_from + IF(v_to > v_from, 0, 1440);
  END IF;
  IF v_days IS NULL OR v_from >= 1440 OR v_to > 1440 OR v_from = v_to THEN
    SET p_week = NULL, v_days = '';
  END IF;
  WHILE v_days <> '' DO
    SET v_part = SUBSTRING_INDEX(v_days, ',', 1), v_days = SUBSTRING(v_days, CHAR_LENGTH(v_part) + 2);
    SET v_day = FIELD(LEFT(v_part, 3), 'sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat') - 1;
    SET v_last = FIELD(RIGHT(v_part, 3), 'sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat') - 1;
    IF v_day = v_last AND CHAR_LENGTH(v_part) > 3 THEN
      SET p_week = NULL; -- ambiguous: one day, or seven
    END IF;
    SET v_last = v_last + IF(v_last < v_day, 7, 0);
    WHILE v_day <= v_last DO
      -- minutes after Saturday wrap to the beginning
      SET v_begin = v_day % 7 * 1440 + v_from, v_over = GREATEST(0, v_begin + v_n - 10080), v_day = v_day + 1;
      SET p_week = INSERT(INSERT(p_week, v_begin + 1, v_n - v_over, REPEAT('o', v_n - v_over)), 1, v_over, REPEAT('o', v_over));
    END WHILE;
  END WHILE;
END
