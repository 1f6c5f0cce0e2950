CREATE PROCEDURE {self}(IN queue {text}, IN job_type {text})
{traits}
BEGIN
  DECLARE v_table VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  {inline find_queue}
  IF LENGTH(job_type) > 255 THEN
    CALL {job}$refuse(31002, CONCAT('job_type has ', LENGTH(job_type), ' bytes; the maximum is 255'));
  ELSEIF /*M! @@tx_isolation */ /*!80000 @@transaction_isolation */ = 'SERIALIZABLE' THEN -- it would lock all rows that it counts
    CALL {job}$refuse(31017, 'the session is SERIALIZABLE: SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED');
  END IF;
  SET @hipq_type = job_type;
  SET @hipq_call = CONCAT('CALL `', v_table, '$backlog`(@hipq_type, @hipq_n)');
  {inline call}
  SELECT @hipq_n AS backlog;
END
