CREATE PROCEDURE {self}(IN queue {text}, IN job_type {text}, IN job_key {text}, IN job_data {text}, IN options {text})
{traits}
BEGIN
  DECLARE v_own BOOLEAN;
  DECLARE v_table VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    CALL {job}$undo(v_own);
    RESIGNAL;
  END;
  {inline find_queue}
  {inline begin}
  SET @hipq_type = job_type, @hipq_key = job_key, @hipq_data = job_data, @hipq_options = options;
  SET @hipq_call = CONCAT('CALL `', v_table, '$submit`(@hipq_type, @hipq_key, @hipq_data, @hipq_options, @hipq_id, @hipq_duplicate)');
  PREPARE hipq FROM @hipq_call;
  EXECUTE hipq;
  DEALLOCATE PREPARE hipq;
  SET @hipq_data = NULL;
  IF v_own THEN
    COMMIT AND NO CHAIN NO RELEASE;
  END IF;
  SELECT @hipq_id AS id, @hipq_duplicate AS duplicate;
END
