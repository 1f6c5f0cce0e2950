-- Tells a job's throttle group by its type and its data, as hipq work does; NULL where SQL can't. A value inside the data is told by hipq itself, for of a
-- name that is there twice the engines take another each, and write numbers in ways of their own.
CREATE PROCEDURE {self}(IN p_by {text}, IN p_type VARBINARY(64), IN p_data {text}, OUT p_group VARBINARY(255))
{traits}
BEGIN
  DECLARE v_path, v_name, v_value {text};
  DECLARE v_kind VARCHAR(32) CHARACTER SET ascii;
  SET p_group = NULL;
  IF p_by = 'job_type' THEN
    CALL {job}$cut(CONCAT(p_by, '=', CONVERT(p_type USING utf8mb4)), p_group);
  ELSE
    tell: BEGIN
      SET v_path = SUBSTRING(p_by, 6);
      IF NOT JSON_VALID(p_data) THEN
        IF p_data NOT LIKE '%{%' OR p_data = 'NONE' THEN
          CALL {job}$cut(CONCAT(p_by, '='), p_group); -- no object, whoever reads it
        END IF;
        LEAVE tell;
      END IF;
      -- a name spelt in another way, such as \u0072egion, may be the same
      IF p_data REGEXP '\\\\u00[0-7]|\\\\/' THEN
        LEAVE tell;
      END IF;
      WHILE v_path <> '' DO
        SET v_name = SUBSTRING_INDEX(v_path, '.', 1), v_path = SUBSTRING(v_path, CHAR_LENGTH(v_name) + 2);
        IF CHAR_LENGTH(p_data) - CHAR_LENGTH(REPLACE(p_data, JSON_QUOTE(v_name), '')) > CHAR_LENGTH(JSON_QUOTE(v_name)) THEN
          LEAVE tell;
        END IF;
      END WHILE;
      SET v_path = SUBSTRING(p_by, 6), v_value = p_data;
      WHILE v_path <> '' AND v_value IS NOT NULL DO
        SET v_name = SUBSTRING_INDEX(v_path, '.', 1), v_path = SUBSTRING(v_path, CHAR_LENGTH(v_name) + 2);
        SET v_value = IF(JSON_TYPE(v_value) = 'OBJECT', JSON_EXTRACT(v_value, CONCAT('$.', JSON_QUOTE(v_name))), NULL);
      END WHILE;
      SET v_kind = JSON_TYPE(v_value);
      IF v_value IS NULL OR v_kind IN ('NULL', 'OBJECT', 'ARRAY') THEN
        SET v_value = '';
      ELSEIF v_kind = 'STRING' THEN
        SET v_value = JSON_UNQUOTE(v_value);
      ELSEIF NOT v_value REGEXP '^(-?[1-9][0-9]{0,17}|0|true|false)$' OR LOCATE(v_value, p_data) = 0 OR LOCATE('-0', p_data) > 0 THEN
        LEAVE tell;
      END IF;
      CALL {job}$cut(CONCAT(p_by, '=', v_value), p_group);
    END tell;
  END IF;
END
