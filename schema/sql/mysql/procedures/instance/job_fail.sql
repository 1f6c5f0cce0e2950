-- Checks its arguments; QUEUE$settle (queue/settle.sql) decides and writes.
CREATE PROCEDURE {self}(IN worker_secret {text}, IN queue {text}, IN id BIGINT, IN token {text}, IN error {text}, IN options {text})
{traits}
BEGIN
  {inline head}
  DECLARE v_verdict VARCHAR(16) CHARACTER SET ascii DEFAULT 'retry';
  DECLARE v_after BIGINT;
  DECLARE v_final, v_release, v_count BOOLEAN;
  {inline undo}
  {inline find_queue}
  {inline check_worker}
  IF id IS NULL THEN
    CALL {job}$refuse(31001, 'id is missing');
  ELSEIF LENGTH(error) > 1048576 THEN
    CALL {job}$refuse(31002, CONCAT('error has ', LENGTH(error), ' bytes; the maximum is 1048576'));
  END IF;
  IF options IS NOT NULL THEN
    CALL {job}$options(options, 'final, retry_after, release, count');
    CALL {job}$span(options, 'retry_after', v_after);
    -- as in a handler's reply: the number 0 is no delay, a text such as "0s" means at once
    SET v_after = NULLIF(GREATEST(v_after, JSON_TYPE(JSON_EXTRACT(options, '$.retry_after')) = 'STRING'), 0);
  END IF;
  CALL {job}$truth(options, 'final', v_final);
  CALL {job}$truth(options, 'release', v_release);
  CALL {job}$truth(options, 'count', v_count);
  IF v_release AND (v_final OR error IS NOT NULL) OR v_count AND NOT v_release THEN
    CALL {job}$refuse(31002, 'options: release goes without an error or final, and count goes with release');
  END IF;
  SET v_verdict = CASE WHEN v_release THEN 'release' WHEN v_final THEN 'failed' ELSE v_verdict END;
  IF error = 'NONE' THEN -- it would look like success; a refusal would leave the attempt running
    SET error = 'the handler''s reason was the word NONE';
  END IF;
  IF v_verdict = 'failed' AND v_after IS NOT NULL THEN
    CALL {job}$refuse(31002, 'options: final and retry_after contradict each other');
  END IF;
  {inline begin}
  SET @hipq_worker = v_id, @hipq_id = id, @hipq_token = token, @hipq_verdict = v_verdict, @hipq_text = error, @hipq_after = v_after, @hipq_count = v_count;
  SET @hipq_call = CONCAT('CALL `', v_table, '$settle`(@hipq_worker, @hipq_id, @hipq_token, @hipq_verdict, @hipq_text, @hipq_after, @hipq_count, @hipq_state, @hipq_time)');
  {inline call}
  SET @hipq_text = NULL;
  {inline commit}
  SELECT @hipq_state AS state, CAST(@hipq_time AS DATETIME(6)) AS scheduled_run_time;
END
