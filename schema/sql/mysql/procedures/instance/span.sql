-- Parses an option, whole seconds or a text such as "5m", into microseconds; NULL if absent.
CREATE PROCEDURE {self}(IN p_options {text}, IN p_name VARCHAR(32) CHARACTER SET ascii, OUT p_us BIGINT)
{traits}
BEGIN
  DECLARE v_text {text} DEFAULT JSON_EXTRACT(p_options, CONCAT('$.', p_name));
  SET p_us = NULL;
  IF JSON_TYPE(v_text) = 'STRING' THEN
    CALL {job}$duration(p_name, JSON_UNQUOTE(v_text), p_us);
  ELSEIF v_text REGEXP '^[0-9]{1,9}$' THEN
    SET p_us = v_text * 1000000;
  ELSEIF JSON_TYPE(v_text) <> 'NULL' THEN
    CALL {job}$refuse(31002, CONCAT('options: ', p_name, ' ', v_text, ' is neither a number of whole seconds nor a text such as "5m"'));
  END IF;
END
