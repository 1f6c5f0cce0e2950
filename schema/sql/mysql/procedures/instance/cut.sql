-- Cuts a group's name to what its column holds, between two characters.
CREATE PROCEDURE {self}(IN p_name {text}, OUT p_group VARBINARY(255))
{traits}
BEGIN
  SET p_name = LEFT(p_name, 255);
  WHILE LENGTH(p_name) > 255 DO
    SET p_name = LEFT(p_name, CHAR_LENGTH(p_name) - 1);
  END WHILE;
  SET p_group = p_name;
END
