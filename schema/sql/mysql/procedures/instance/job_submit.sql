CREATE PROCEDURE {self}(IN queue {text}, IN job_type {text}, IN job_key {text}, IN job_data {text}, IN options {text})
{traits}
BEGIN
  {inline head}
  {inline undo}
  {inline find_queue}
  {inline begin}
  SET @hipq_type = job_type, @hipq_key = job_key, @hipq_data = job_data, @hipq_options = options, @hipq_own = v_own;
  SET @hipq_call = CONCAT('CALL `', v_table, '$submit`(@hipq_type, @hipq_key, @hipq_data, @hipq_options, NULL, @hipq_own, @hipq_id, @hipq_duplicate)');
  {inline call}
  SET @hipq_data = NULL;
  {inline commit}
  SELECT @hipq_id AS id, @hipq_duplicate AS duplicate;
END
