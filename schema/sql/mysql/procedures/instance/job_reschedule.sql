CREATE PROCEDURE {self}(IN queue {text}, IN id BIGINT, IN job_type {text}, IN job_key {text}, IN options {text})
{traits}
BEGIN
  {inline head}
  {inline undo}
  {inline find_queue}
  {inline begin}
  SET @hipq_id = id, @hipq_type = job_type, @hipq_key = job_key, @hipq_options = options, @hipq_own = v_own;
  SET @hipq_call = CONCAT('CALL `', v_table, '$reschedule`(@hipq_id, @hipq_type, @hipq_key, @hipq_options, @hipq_own, @hipq_state, @hipq_time)');
  {inline call}
  {inline commit}
  SELECT @hipq_state AS state, CAST(@hipq_time AS DATETIME(6)) AS scheduled_run_time;
END
