-- Parses an option that is a whole number; NULL if absent.
CREATE PROCEDURE {self}(IN p_options {text}, IN p_name VARCHAR(32) CHARACTER SET ascii, IN p_min BIGINT, IN p_max BIGINT, OUT p_n BIGINT)
{traits}
BEGIN
  DECLARE v_text {text} DEFAULT JSON_EXTRACT(p_options, CONCAT('$.', p_name));
  SET p_n = IF(JSON_TYPE(v_text) = 'INTEGER' AND v_text REGEXP '^-?[0-9]{1,12}$', v_text, NULL);
  IF JSON_TYPE(v_text) <> 'NULL' AND COALESCE(p_n NOT BETWEEN p_min AND p_max, TRUE) THEN
    CALL {job}$refuse(31002, CONCAT('options: ', p_name, ' ', v_text, ' is not a whole number from ', p_min, ' to ', p_max));
  END IF;
END
