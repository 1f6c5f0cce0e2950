-- Reads a job's wish for its delay, into microseconds: NULL for none, or one that nobody can read.
CREATE PROCEDURE {self}(IN p_wish {text}, OUT p_us BIGINT)
{traits}
BEGIN
  DECLARE CONTINUE HANDLER FOR 31002 SET p_us = NULL;
  SET p_us = NULL;
  IF p_wish NOT IN ('NONE', 'never') THEN
    CALL {job}$duration('wish', p_wish, p_us);
  END IF;
END
