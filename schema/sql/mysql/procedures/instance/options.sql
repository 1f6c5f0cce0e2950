-- Checks that options are a JSON object with these names only.
CREATE PROCEDURE {self}(IN p_options {text}, IN p_names {text})
{traits}
BEGIN
  DECLARE v_name, v_names {text};
  DECLARE v_i INT DEFAULT 0;
  IF NOT JSON_VALID(p_options) OR JSON_TYPE(p_options) <> 'OBJECT' THEN
    CALL {job}$refuse(31002, 'options is not a JSON object');
  END IF;
  SET v_names = JSON_KEYS(p_options);
  IF JSON_LENGTH(p_options) <> JSON_LENGTH(v_names) THEN -- MySQL accepts a repeated name, and takes the last
    CALL {job}$refuse(31002, 'options: a name is given twice');
  END IF;
  WHILE v_i < JSON_LENGTH(v_names) DO
    SET v_name = JSON_UNQUOTE(JSON_EXTRACT(v_names, CONCAT('$[', v_i, ']'))), v_i = v_i + 1;
    IF NOT FIND_IN_SET(CAST(v_name AS BINARY), REPLACE(p_names, ', ', ',')) THEN
      CALL {job}$refuse(31002, CONCAT('options: unknown name ', v_name, '; allowed here: ', p_names));
    END IF;
  END WHILE;
END
