-- Refuses a session with settings that would harm others: NOW(6) is the session's clock, SYSDATE(6) the server's.
IF ABS(TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))) > 10000000 THEN
  CALL {job}$refuse(31017, 'the session has set timestamp: SET timestamp = DEFAULT');
ELSEIF @@SESSION.insert_id > 0 THEN
  CALL {job}$refuse(31017, 'the session has set insert_id: open a new connection');
ELSEIF @@SESSION.unique_checks = 0 THEN -- an INSERT into an empty table would lock it as a whole on MariaDB
  CALL {job}$refuse(31017, 'the session has unique_checks = 0: SET unique_checks = 1');
ELSEIF /*M! @@tx_isolation */ /*!80000 @@transaction_isolation */ = 'SERIALIZABLE' THEN -- it would lock all rows that are read
  CALL {job}$refuse(31017, 'the session is SERIALIZABLE: SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED');
END IF;
-- Begins a transaction, or sets a savepoint in the caller's. MySQL shows only by error 1568 that there is one: within a
-- transaction, the isolation can't be set. Servers run no handlers for a killed statement, so that may be the transaction
-- of a call: @hipq_begun is 1 from its beginning to its end.
BEGIN
  DECLARE CONTINUE HANDLER FOR 1568 SET v_own = FALSE;
  SET v_own = @@SESSION.autocommit;
  IF v_own THEN
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  END IF;
  IF v_own THEN
    SET @hipq_begun = 1;
    START TRANSACTION READ WRITE;
  ELSEIF @hipq_begun = 1 THEN
    SET v_own = NULL; -- nothing to undo
    CALL {job}$refuse(31017, 'an earlier call in this session was interrupted: open a new connection');
  ELSE
    SAVEPOINT hipq;
  END IF;
END;
