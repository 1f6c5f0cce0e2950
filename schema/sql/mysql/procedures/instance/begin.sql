-- Begins a transaction, or sets a savepoint in the caller's. Whether there is one MySQL tells nobody but whoever asks for
-- another isolation: within a transaction that is an error.
CREATE PROCEDURE {self}(OUT p_own BOOLEAN)
{traits}
BEGIN
  DECLARE CONTINUE HANDLER FOR 1568 SET p_own = FALSE;
  SET p_own = @@SESSION.autocommit;
  IF p_own THEN
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  END IF;
  IF p_own THEN
    START TRANSACTION READ WRITE;
  ELSE
    SAVEPOINT hipq;
  END IF;
END
