CREATE PROCEDURE {self}(IN queue {text}, IN id BIGINT, IN job_type {text}, IN job_key {text})
{traits}
BEGIN
  {inline head}
  {inline undo}
  {inline find_queue}
  {inline begin}
  SET @hipq_id = id, @hipq_type = job_type, @hipq_key = job_key;
  SET @hipq_call = CONCAT('CALL `', v_table, '$retry`(@hipq_id, @hipq_type, @hipq_key, TRUE, @hipq_state, @hipq_new, @hipq_duplicate)');
  {inline call}
  {inline commit}
  SELECT @hipq_state AS state;
END
