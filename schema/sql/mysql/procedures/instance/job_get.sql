CREATE PROCEDURE {self}(IN queue {text}, IN id BIGINT, IN job_type {text}, IN job_key {text})
{traits}
BEGIN
  DECLARE v_table VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  {inline find_queue}
  IF /*M! @@tx_isolation */ /*!80000 @@transaction_isolation */ = 'SERIALIZABLE' THEN -- it would lock the job
    CALL {job}$refuse(31017, 'the session is SERIALIZABLE: SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED');
  END IF;
  SET @hipq_id = id, @hipq_type = job_type, @hipq_key = job_key;
  SET @hipq_call = CONCAT('CALL `', v_table, '$get`(@hipq_id, @hipq_type, @hipq_key)');
  {inline call}
END
