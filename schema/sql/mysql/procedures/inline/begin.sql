-- Begins a transaction, or sets a savepoint in the caller's. Whether there is one MySQL tells nobody but whoever asks for
-- another isolation: within a transaction that is an error.
BEGIN
  DECLARE CONTINUE HANDLER FOR 1568 SET v_own = FALSE;
  SET v_own = @@SESSION.autocommit;
  IF v_own THEN
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  END IF;
  IF v_own THEN
    START TRANSACTION READ WRITE;
  ELSE
    SAVEPOINT hipq;
  END IF;
END;
