CREATE PROCEDURE {self}(IN queue {text}, IN id BIGINT, IN job_type {text}, IN job_key {text}, IN outcome {text}, IN result {text}, IN options {text})
{traits}
BEGIN
  {inline head}
  DECLARE v_error, v_token {text};
  DECLARE v_after BIGINT;
  DECLARE v_count BOOLEAN;
  {inline undo}
  {inline find_queue}
  IF options IS NOT NULL THEN
    CALL {job}$options(options, 'error, retry_after, count, token');
    CALL {job}$span(options, 'retry_after', v_after);
    SET v_after = NULLIF(GREATEST(v_after, JSON_TYPE(JSON_EXTRACT(options, '$.retry_after')) = 'STRING'), 0); -- as in job_fail
    IF JSON_TYPE(JSON_EXTRACT(options, '$.error')) NOT IN ('STRING', 'NULL') OR JSON_TYPE(JSON_EXTRACT(options, '$.token')) NOT IN ('STRING', 'NULL') THEN
      CALL {job}$refuse(31002, 'options: error or token is not a text');
    END IF;
    SET v_error = IF(JSON_TYPE(JSON_EXTRACT(options, '$.error')) = 'STRING', JSON_UNQUOTE(JSON_EXTRACT(options, '$.error')), NULL),
      v_token = IF(JSON_TYPE(JSON_EXTRACT(options, '$.token')) = 'STRING', JSON_UNQUOTE(JSON_EXTRACT(options, '$.token')), NULL);
  END IF;
  CALL {job}$truth(options, 'count', v_count);
  IF outcome IS NULL THEN
    CALL {job}$refuse(31001, 'outcome is missing');
  ELSEIF outcome NOT IN ('finished', 'retry', 'failed', 'release') THEN
    CALL {job}$refuse(31002, CONCAT('outcome ', outcome, ' is not one of finished, retry, failed, release'));
  ELSEIF LENGTH(result) > 1048576 OR LENGTH(v_error) > 1048576 THEN
    CALL {job}$refuse(31002, 'result or error has more than 1048576 bytes');
  ELSEIF outcome <> 'finished' AND result IS NOT NULL OR outcome NOT IN ('retry', 'failed') AND v_error IS NOT NULL
      OR outcome NOT IN ('retry', 'release') AND v_after IS NOT NULL OR outcome <> 'release' AND v_count THEN
    CALL {job}$refuse(31002, 'result goes with finished, error with retry and failed, retry_after with retry and release, count with release');
  END IF;
  IF v_error = 'NONE' THEN -- as in job_fail
    SET v_error = 'the handler''s reason was the word NONE';
  END IF;
  {inline begin}
  SET @hipq_id = id, @hipq_type = job_type, @hipq_key = job_key, @hipq_token = v_token, @hipq_verdict = outcome,
    @hipq_text = COALESCE(v_error, NULLIF(result, 'NONE')), @hipq_after = v_after, @hipq_count = v_count, @hipq_own = v_own;
  SET @hipq_call = CONCAT('CALL `', v_table, '$answer`(@hipq_id, @hipq_type, @hipq_key, @hipq_token, @hipq_verdict, @hipq_text, @hipq_after, @hipq_count, @hipq_own, @hipq_state, @hipq_changed)');
  {inline call}
  SET @hipq_text = NULL;
  {inline commit}
  SELECT @hipq_state AS state, @hipq_changed AS changed;
END
