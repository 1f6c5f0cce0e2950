-- Undoes a failed call. After a deadlock the server has rolled back the whole transaction, and the savepoint is gone.
CREATE PROCEDURE {self}(IN p_own BOOLEAN)
{traits}
BEGIN
  DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
  IF p_own THEN
    ROLLBACK AND NO CHAIN NO RELEASE;
    SET @hipq_begun = NULL;
  ELSEIF NOT p_own THEN
    ROLLBACK TO SAVEPOINT hipq;
  END IF;
END
