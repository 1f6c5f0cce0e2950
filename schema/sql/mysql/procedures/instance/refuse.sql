-- Ends a call with an error of hipq's. It cuts the message, because servers refuse more than 128 characters.
CREATE PROCEDURE {self}(IN p_code INT, IN p_message {text})
{traits}
BEGIN
  DECLARE v_message VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT LEFT(COALESCE(p_message, 'NULL'), 128);
  SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = p_code, MESSAGE_TEXT = v_message;
END
