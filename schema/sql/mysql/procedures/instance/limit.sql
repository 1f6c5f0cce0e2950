-- The limit of a throttle group: that of its value, or that of all others; 0 is none.
CREATE PROCEDURE {self}(IN p_by {text}, IN p_limits {text}, IN p_group VARBINARY(255), OUT p_limit BIGINT)
{traits}
BEGIN
  DECLARE v_value VARBINARY(255) DEFAULT SUBSTRING(p_group, LENGTH(p_by) + 2);
  DECLARE v_keys {text} DEFAULT JSON_KEYS(p_limits);
  DECLARE v_key {text};
  DECLARE v_i INT DEFAULT 0;
  SET p_limit = 0;
  find: WHILE v_value <> '' AND v_i < COALESCE(JSON_LENGTH(v_keys), 0) DO
    SET v_key = JSON_UNQUOTE(JSON_EXTRACT(v_keys, CONCAT('$[', v_i, ']'))), v_i = v_i + 1;
    IF CAST(v_key AS BINARY) = v_value THEN
      SET p_limit = GREATEST(0, JSON_EXTRACT(p_limits, CONCAT('$.', JSON_QUOTE(v_key))) + 0);
      LEAVE find;
    ELSEIF v_key = '*' THEN
      SET p_limit = GREATEST(0, JSON_EXTRACT(p_limits, '$."*"') + 0);
    END IF;
  END WHILE find;
END
