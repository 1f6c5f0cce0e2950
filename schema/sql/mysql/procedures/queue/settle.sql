-- Settles an attempt as its worker says, or leaves the job to an answer from outside or a retry handler. p_verdict is
-- finished, retry, failed or release, which counts as an attempt with p_count; p_text the result or error; p_after the worker's own
-- delay in microseconds.
CREATE PROCEDURE {self}(
  IN p_worker {id}, IN p_id BIGINT, IN p_token {text}, IN p_verdict VARCHAR(16) CHARACTER SET ascii, IN p_text {text}, IN p_after BIGINT, IN p_count BOOLEAN,
  OUT p_state VARCHAR(16) CHARACTER SET ascii, OUT p_time DATETIME(6))
{traits}
BEGIN
  DECLARE v_state, v_status VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_holder, v_lock, v_attempt_token, v_type VARBINARY(255);
  DECLARE v_key VARBINARY(255);
  DECLARE v_stopping, v_good BOOLEAN;
  DECLARE v_error, v_result, v_output, v_override, v_windows, v_zone {text};
  DECLARE v_policy {text} DEFAULT '{default_policy}'; -- if the queue's row was deleted
  DECLARE v_now, v_start, v_opening DATETIME(6);
  DECLARE v_attempt, v_uncounted, v_timeout, v_keep_finished, v_keep_failed, v_factor, v_shard, v_limit, v_ran BIGINT;
  DECLARE v_delay DOUBLE;
  DECLARE v_host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'NONE';
  DECLARE v_pid INT DEFAULT 0;
  SET p_state = NULL, p_time = NULL;
  SELECT j.state, j.status, j.worker_id, j.lock_token, j.attempt_token, j.job_type, j.job_key, j.attempt, j.uncounted, j.stopping, j.error, j.result,
      j.output, j.retry_override, j.start_time, j.timeout, j.time_windows, j.scheduled_run_time, j.throttle_factor, j.shard
    INTO v_state, v_status, v_holder, v_lock, v_attempt_token, v_type, v_key, v_attempt, v_uncounted, v_stopping, v_error, v_result,
      v_output, v_override, v_start, v_timeout, v_windows, p_time, v_factor, v_shard
  FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id FOR UPDATE;
  CALL {job}$check_holder(p_worker, p_id, p_token, FALSE, v_state, v_status, v_holder, v_lock, v_attempt_token);
  SET v_now = {now}, v_ran = GREATEST(0, TIMESTAMPDIFF(MICROSECOND, v_start, v_now) DIV 1000);
  {inline policy}
  IF v_stopping AND NOT (v_status = 'answered' AND v_error = 'NONE') AND (p_verdict <> 'finished' OR v_status <> 'running' OR JSON_EXTRACT(v_policy, '$.async') IS NOT NULL) THEN
    SET p_verdict = 'cancelled', p_text = 'cancelled'; -- work that was only sent is not done
  ELSEIF v_status = 'answered' THEN
    -- an answer from outside came first, so the worker's verdict doesn't count
    SET p_verdict = CASE WHEN v_error = 'NONE' THEN 'finished' WHEN v_override = 'never' THEN 'failed'
        WHEN v_override LIKE 'release%' THEN 'release' ELSE 'retry' END,
      p_text = IF(v_error = 'NONE', v_result, v_error), p_after = NULL, p_count = v_override LIKE 'release count%';
    CALL {job}$override(TRIM(REPLACE(REPLACE(v_override, 'release', ''), 'count', '')), p_after);
  ELSEIF p_verdict = 'finished' AND JSON_EXTRACT(v_policy, '$.async') IS NOT NULL THEN
    SET p_verdict = 'sent';
  END IF;
  SET v_good = p_verdict IN ('finished', 'sent'), p_text = COALESCE(NULLIF(p_text, ''), IF(v_good, 'NONE', '{no_reason}'));
  CASE
  WHEN p_verdict = 'sent' THEN
    UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = 'awaiting', result = p_text, wake_time = v_start + INTERVAL v_timeout SECOND, update_time = v_now
    WHERE id = p_id;
    -- rounds add this up without reading all such jobs
    IF v_limit > 0 THEN
      UPDATE {shards} SET awaiting = awaiting + v_factor WHERE queue = '{queue}' AND shard = v_shard;
    END IF;
    SET p_state = 'running';
  WHEN p_verdict = IF(v_status = 'answered', 'retry', p_verdict) AND p_verdict IN ('retry', 'failed') AND JSON_EXTRACT(v_policy, '$.retry_handler') IS NOT NULL THEN
    UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = 'undecided', losses = 0, error = p_text,
      retry_override = CASE WHEN p_verdict = 'failed' THEN 'never' WHEN p_after > 0 THEN CONCAT(p_after, 'us') ELSE 'NONE' END,
      wake_time = NULL, update_time = v_now WHERE id = p_id;
    SET p_state = 'error', p_time = NULL;
  ELSE
    {inline end}
  END CASE;
END
