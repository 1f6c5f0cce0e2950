CREATE PROCEDURE {self}(IN queue {text}, IN id BIGINT, IN job_type {text}, IN job_key {text}, IN options {text})
{traits}
BEGIN
  {inline head}
  DECLARE v_running BOOLEAN;
  {inline undo}
  {inline find_queue}
  IF options IS NOT NULL THEN
    CALL {job}$options(options, 'running');
  END IF;
  CALL {job}$truth(options, 'running', v_running);
  {inline begin}
  SET @hipq_id = id, @hipq_type = job_type, @hipq_key = job_key, @hipq_running = v_running, @hipq_own = v_own;
  SET @hipq_call = CONCAT('CALL `', v_table, '$cancel`(@hipq_id, @hipq_type, @hipq_key, @hipq_running, @hipq_own, @hipq_state)');
  {inline call}
  {inline commit}
  SELECT @hipq_state AS state;
END
