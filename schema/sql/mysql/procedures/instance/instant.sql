-- Parses an RFC 3339 time; without a zone it is UTC, as in the table.
CREATE PROCEDURE {self}(IN p_name VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_text {text}, OUT p_at DATETIME(6))
{traits}
BEGIN
  DECLARE v_clock, v_zone VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE CONTINUE HANDLER FOR 1292, 1411, 1441 SET p_at = NULL;
  SET p_at = NULL;
  IF p_text REGEXP '^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})?$' THEN
    SET v_zone = REPLACE(REGEXP_REPLACE(SUBSTRING(p_text, 20), '^[.][0-9]+', ''), 'Z', '');
    -- digits after the microsecond are cut, because a server would round them, even up to the next day
    SET v_clock = CONCAT(LEFT(p_text, 10), ' ', SUBSTRING(p_text, 12, 8),
      LEFT(COALESCE(REGEXP_SUBSTR(SUBSTRING(p_text, 20), '^[.][0-9]+'), ''), 7));
    IF SUBSTRING(v_clock, 12, 2) < '24' AND SUBSTRING(v_clock, 6, 2) > '00' AND SUBSTRING(v_clock, 9, 2) > '00' THEN
      SET p_at = CAST(v_clock AS DATETIME(6));
    END IF;
    IF v_zone <> '' THEN
      SET p_at = IF(SUBSTRING(v_zone, 2, 2) > '23' OR SUBSTRING(v_zone, 5, 2) > '59', NULL, p_at
        - INTERVAL IF(LEFT(v_zone, 1) = '-', -1, 1) * (60 * SUBSTRING(v_zone, 2, 2) + SUBSTRING(v_zone, 5, 2)) MINUTE);
    END IF;
  END IF;
  IF p_at IS NULL OR p_at NOT BETWEEN '1970-01-01' AND '9998-12-31' THEN
    CALL {job}$refuse(31002, CONCAT(p_name, ' ', LEFT(p_text, 40), ' is not a time from 1970 to the end of 9998-12-30: write 2026-12-31T23:00:00Z'));
  END IF;
END
