-- Parses a retry override into microseconds; NULL if there is none, or it is invalid.
CREATE PROCEDURE {self}(IN p_override {text}, OUT p_us BIGINT)
{traits}
BEGIN
  DECLARE CONTINUE HANDLER FOR 31002 SET p_us = NULL;
  SET p_us = NULL;
  IF p_override NOT IN ('NONE', 'never') THEN
    CALL {job}$duration('retry_override', p_override, p_us);
  END IF;
END
