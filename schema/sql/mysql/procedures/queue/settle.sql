-- Ends an attempt by its worker's word, or leaves the job to an answer from outside or to its retry handler. p_verdict is
-- finished, retry or failed, p_text the result or the error, p_after the worker's own wish for the delay, in microseconds.
CREATE PROCEDURE {self}(
  IN p_worker {id}, IN p_id BIGINT, IN p_token {text}, IN p_verdict VARCHAR(16) CHARACTER SET ascii, IN p_text {text}, IN p_after BIGINT,
  OUT p_state VARCHAR(16) CHARACTER SET ascii, OUT p_time DATETIME(6))
{traits}
BEGIN
  DECLARE v_state, v_line VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_holder, v_lock, v_attempt_token, v_type VARBINARY(64);
  DECLARE v_key VARBINARY(255);
  DECLARE v_stopping BOOLEAN;
  DECLARE v_error, v_output, v_wish {text};
  DECLARE v_policy {text} DEFAULT '{default_policy}'; -- and so on, where somebody has deleted the queue's row
  DECLARE v_now, v_start DATETIME(6);
  DECLARE v_attempt, v_timeout, v_keep BIGINT;
  DECLARE v_host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'NONE';
  DECLARE v_pid INT DEFAULT 0;
  SET p_state = NULL, p_time = NULL;
  SELECT j.state, j.line, j.worker_id, j.lock_token, j.attempt_token, j.job_type, j.job_key, j.attempt, j.stopping, j.error, j.output, j.wish,
      j.start_time, j.timeout
    INTO v_state, v_line, v_holder, v_lock, v_attempt_token, v_type, v_key, v_attempt, v_stopping, v_error, v_output, v_wish, v_start, v_timeout
  FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id FOR UPDATE;
  IF v_line = 'locked' AND v_state NOT IN ('initial', 'retry') AND v_holder = p_worker AND v_lock = CAST(p_token AS BINARY) THEN
    SET v_now = UTC_TIMESTAMP(6);
  ELSE
    CALL {job}$judge(p_worker, p_id, p_token, FALSE, v_state, v_line, v_holder, v_lock, v_attempt_token); -- says why not
  END IF;
  -- no row of these is locked, which would hold up the worker's heartbeat
  SELECT q.keep_finished, COALESCE(w.host, 'NONE'), COALESCE(w.pid, 0),
    {inline policy}
    INTO v_keep, v_host, v_pid, v_policy
  FROM {queues} q LEFT JOIN {job_types} t ON t.queue = q.queue AND t.job_type = v_type LEFT JOIN {workers} w ON w.id = p_worker
  WHERE q.queue = '{queue}';
  IF v_stopping AND (p_verdict <> 'finished' OR v_state = 'error' OR JSON_EXTRACT(v_policy, '$.async') IS NOT NULL) THEN
    SET p_verdict = 'cancelled', p_text = 'cancelled'; -- work that was only sent is not done
  ELSEIF v_state = 'error' THEN
    -- an answer from outside came first: the worker's own word doesn't count
    SET p_verdict = IF(v_wish = 'never', 'failed', 'retry'), p_text = v_error, p_after = NULL;
    CALL {job}$wish(v_wish, p_after);
  ELSEIF p_verdict = 'finished' AND JSON_EXTRACT(v_policy, '$.async') IS NOT NULL THEN
    SET p_verdict = 'sent';
  END IF;
  CASE
  WHEN p_verdict = 'finished' THEN
    INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key, worker_id, host, pid, attempt, run_ms, output)
    VALUES (v_now, 'job', 'finished', '{queue}', p_id, v_type, v_key, p_worker, v_host, v_pid, v_attempt,
      GREATEST(0, TIMESTAMPDIFF(MICROSECOND, v_start, v_now) DIV 1000), v_output);
    IF v_keep = 0 THEN
      DELETE FROM {jobs} WHERE id = p_id;
    ELSE
      UPDATE {jobs} FORCE INDEX (PRIMARY) SET suspect = 0, state = 'final', line = 'finished', error = 'NONE',
        result = COALESCE(NULLIF(p_text, ''), 'NONE'), wake_time = NULL, update_time = v_now, wish = 'NONE', answered = 0, output = 'NONE'
      WHERE id = p_id;
    END IF;
    SET p_state = 'final';
  WHEN p_verdict = 'sent' THEN
    UPDATE {jobs} FORCE INDEX (PRIMARY) SET line = 'waiting', suspect = 0, result = COALESCE(NULLIF(p_text, ''), 'NONE'),
      wake_time = v_start + INTERVAL v_timeout SECOND, update_time = v_now WHERE id = p_id;
    SET p_state = 'running';
  WHEN p_verdict IN ('retry', 'failed') AND JSON_EXTRACT(v_policy, '$.retry_handler') IS NOT NULL THEN
    UPDATE {jobs} FORCE INDEX (PRIMARY) SET state = 'error', line = 'error', suspect = 0, error = COALESCE(NULLIF(p_text, ''), '{no_reason}'),
      wish = CASE WHEN p_verdict = 'failed' THEN 'never' WHEN p_after > 0 THEN CONCAT(p_after, 'us') ELSE 'NONE' END,
      answered = 0, wake_time = NULL, update_time = v_now WHERE id = p_id;
    SET p_state = 'error';
  ELSE
    CALL {jobs}$conclude(p_id, p_worker, p_verdict, p_text, p_after, v_policy, v_now, p_state, p_time);
  END CASE;
END
