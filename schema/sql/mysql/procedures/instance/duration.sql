-- Parses a duration such as 30s, 5m, 1h30m, 1w2d, into microseconds. p_name names it in a refusal.
CREATE PROCEDURE {self}(IN p_name VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_text {text}, OUT p_us BIGINT)
{traits}
BEGIN
  DECLARE v_rest VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT LEFT(p_text, 100);
  DECLARE v_number, v_unit VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE v_sum DECIMAL(65, 6) DEFAULT 0;
  IF CHAR_LENGTH(p_text) > 40 OR NOT p_text REGEXP '^([0-9]{1,12}w)?([0-9]{1,12}d)?([0-9]{1,12}([.][0-9]{1,9})?(h|ms|m|s|us|µs|ns))*$' OR p_text = '' THEN
    IF p_text <> '0' THEN
      CALL {job}$refuse(31002, CONCAT(p_name, ' ', LEFT(p_text, 40), ' is not a duration: write a number with a unit, 30s, 5m, 24h, 14d, 1h30m'));
    END IF;
    SET v_rest = '';
  END IF;
  WHILE v_rest <> '' DO
    SET v_number = REGEXP_SUBSTR(v_rest, '^[0-9]+([.][0-9]+)?');
    SET v_rest = SUBSTRING(v_rest, CHAR_LENGTH(v_number) + 1);
    SET v_unit = REGEXP_SUBSTR(v_rest, '^(ms|us|µs|ns|[wdhms])');
    SET v_rest = SUBSTRING(v_rest, CHAR_LENGTH(v_unit) + 1);
    SET v_sum = v_sum + CAST(v_number AS DECIMAL(30, 9)) * CASE v_unit
      WHEN 'w' THEN 604800000000 WHEN 'd' THEN 86400000000 WHEN 'h' THEN 3600000000 WHEN 'm' THEN 60000000
      WHEN 's' THEN 1000000 WHEN 'ms' THEN 1000 WHEN 'us' THEN 1 WHEN 'µs' THEN 1 ELSE 0.001 END;
  END WHILE;
  IF v_sum > 9000000000000000 THEN
    CALL {job}$refuse(31002, CONCAT(p_name, ' ', LEFT(p_text, 40), ' is too long'));
  END IF;
  SET p_us = FLOOR(v_sum);
END
