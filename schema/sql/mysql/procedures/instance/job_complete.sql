CREATE PROCEDURE {self}(IN worker_id {text}, IN queue {text}, IN id BIGINT, IN token {text}, IN result {text})
{traits}
BEGIN
  DECLARE v_own BOOLEAN;
  DECLARE v_id {id};
  DECLARE v_table VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    CALL {job}$undo(v_own);
    RESIGNAL;
  END;
  {inline find_queue}
  {inline check_worker}
  IF id IS NULL THEN
    CALL {job}$refuse(31001, 'id is missing');
  ELSEIF LENGTH(result) > 1048576 THEN
    CALL {job}$refuse(31002, CONCAT('result has ', LENGTH(result), ' bytes, allowed are 1048576'));
  END IF;
  {inline begin}
  SET @hipq_worker = v_id, @hipq_id = id, @hipq_token = token, @hipq_text = result;
  SET @hipq_call = CONCAT('CALL `', v_table, '$settle`(@hipq_worker, @hipq_id, @hipq_token, ''finished'', @hipq_text, NULL, @hipq_state, @hipq_time)');
  PREPARE hipq FROM @hipq_call;
  EXECUTE hipq;
  DEALLOCATE PREPARE hipq;
  SET @hipq_text = NULL;
  IF v_own THEN
    COMMIT AND NO CHAIN NO RELEASE;
  END IF;
  SELECT @hipq_state AS state;
END
