CREATE PROCEDURE {self}(IN worker_secret {text}, IN queue {text}, IN id BIGINT, IN token {text}, IN result {text})
{traits}
BEGIN
  {inline head}
  {inline undo}
  {inline find_queue}
  {inline check_worker}
  IF id IS NULL THEN
    CALL {job}$refuse(31001, 'id is missing');
  ELSEIF LENGTH(result) > 1048576 THEN
    CALL {job}$refuse(31002, CONCAT('result has ', LENGTH(result), ' bytes; the maximum is 1048576'));
  END IF;
  {inline begin}
  SET @hipq_worker = v_id, @hipq_id = id, @hipq_token = token, @hipq_text = result;
  SET @hipq_call = CONCAT('CALL `', v_table, '$settle`(@hipq_worker, @hipq_id, @hipq_token, ''finished'', @hipq_text, NULL, NULL, @hipq_state, @hipq_time)');
  {inline call}
  SET @hipq_text = NULL;
  {inline commit}
  SELECT @hipq_state AS state;
END
