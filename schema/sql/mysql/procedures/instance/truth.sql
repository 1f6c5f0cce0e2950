-- Parses an option that is true or false; FALSE if absent.
CREATE PROCEDURE {self}(IN p_options {text}, IN p_name VARCHAR(32) CHARACTER SET ascii, OUT p_true BOOLEAN)
{traits}
BEGIN
  DECLARE v_text {text} DEFAULT JSON_EXTRACT(p_options, CONCAT('$.', p_name));
  IF JSON_TYPE(v_text) NOT IN ('BOOLEAN', 'NULL') THEN
    CALL {job}$refuse(31002, CONCAT('options: ', p_name, ' is neither true nor false'));
  END IF;
  SET p_true = COALESCE(JSON_UNQUOTE(v_text) = 'true', FALSE);
END
