-- Ends a started job by an answer from outside, as hipq complete and hipq fail do. p_verdict is finished, retry, failed or
-- release, which counts as an attempt with p_count; or cancelled, for a job that no worker has. p_text is the result or error; p_after a delay in microseconds.
CREATE PROCEDURE {self}(IN p_id BIGINT, IN p_type {text}, IN p_key {text}, IN p_token {text}, IN p_verdict VARCHAR(16) CHARACTER SET ascii,
  IN p_text {text}, IN p_after BIGINT, IN p_count BOOLEAN, IN p_own BOOLEAN, OUT p_state VARCHAR(16) CHARACTER SET ascii, OUT p_changed BOOLEAN)
{traits}
BEGIN
  DECLARE v_status, v_was VARCHAR(16) CHARACTER SET ascii;
  DECLARE p_worker {id} DEFAULT 'NONE'; -- nobody's
  DECLARE v_holder {id} DEFAULT 'NONE';
  DECLARE v_token VARBINARY(36);
  DECLARE v_type, v_key, v_group VARBINARY(256);
  DECLARE v_error, v_result, v_output, v_override, v_windows, v_zone {text};
  DECLARE v_policy {text} DEFAULT '{default_policy}';
  DECLARE v_now, v_start, v_until, v_opening, p_time DATETIME(6);
  DECLARE v_attempt, v_uncounted, v_keep_finished, v_keep_failed, v_factor, v_shard, v_limit, v_ran BIGINT;
  DECLARE v_delay DOUBLE;
  DECLARE v_host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'NONE';
  DECLARE v_pid INT DEFAULT 0;
  DECLARE v_ends, v_good BOOLEAN;
  CALL {jobs}$find(p_id, p_type, p_key);
  SET p_state = NULL, p_changed = FALSE;
  SELECT j.state, j.status, j.job_type, j.job_key, j.attempt, j.attempt_token, j.worker_id, j.uncounted, j.error, j.result, j.output, j.retry_override,
      j.start_time, j.update_time, j.time_windows, j.scheduled_run_time, j.throttle_factor, j.throttle_group, j.shard
    INTO p_state, v_was, v_type, v_key, v_attempt, v_token, v_holder, v_uncounted, v_error, v_result, v_output, v_override,
      v_start, v_until, v_windows, p_time, v_factor, v_group, v_shard
  FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id FOR UPDATE;
  SET v_ends = p_state = 'final' OR v_was = 'answered' AND (v_error = 'NONE' OR v_override = 'never'), v_good = p_verdict = 'finished';
  IF p_state IS NULL THEN
    CALL {job}$refuse(31007, CONCAT('no job ', p_id));
  ELSEIF v_ends AND (v_error = 'NONE') <> v_good THEN
    CALL {job}$refuse(31011, CONCAT('job ', p_id, IF(p_state = 'final', ' is final: it ', ' was answered: it '), IF(v_good, 'failed', 'finished')));
  ELSEIF NOT v_ends AND v_attempt = 0 THEN
    CALL {job}$refuse(31010, CONCAT('job ', p_id, ' has not been started'));
  ELSEIF NOT v_ends AND COALESCE(LENGTH(p_token) > 36 OR LEFT(p_token, 36) <> v_token, FALSE) THEN
    CALL {job}$refuse(31008, CONCAT('job ', p_id, ' is at attempt ', v_attempt, ', which has another token'));
  END IF;
  -- an attempt that has failed already is retried anyway
  SET p_changed = NOT v_ends AND NOT (p_verdict IN ('retry', 'release') AND (v_was = 'answered' OR p_state <> 'running'));
  IF p_changed THEN
    SET v_now = {now}, v_ran = IF(p_state = 'running', GREATEST(0, TIMESTAMPDIFF(MICROSECOND, v_start, v_now) DIV 1000), -1);
    IF p_verdict = 'cancelled' THEN
      SET v_until = CASE WHEN v_override LIKE 'until %' THEN CAST(REPLACE(REPLACE(SUBSTRING(v_override, 7), 'T', ' '), 'Z', '') AS DATETIME(6))
        WHEN p_state = 'error' THEN v_until ELSE v_now END;
      SET p_text = 'cancelled', v_ran = GREATEST(0, TIMESTAMPDIFF(MICROSECOND, v_start, v_until) DIV 1000);
    ELSEIF v_was NOT IN ('running', 'answered') THEN
      SET v_holder = 'NONE';
    END IF;
    SET p_text = COALESCE(NULLIF(p_text, ''), IF(v_good, v_result, CONCAT('answered: ', p_verdict)));
    {inline policy}
    CASE
    WHEN v_was IN ('running', 'answered') THEN -- its handler still runs, so its worker keeps it until then
      UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = 'answered', losses = 0, error = IF(v_good, 'NONE', p_text), result = IF(v_good, p_text, v_result),
        retry_override = CASE WHEN p_verdict = 'failed' THEN 'never'
          WHEN p_verdict = 'release' THEN CONCAT('release', IF(p_count, ' count', ''), IF(p_after > 0, CONCAT(' ', p_after, 'us'), ''))
          WHEN p_after > 0 THEN CONCAT(p_after, 'us') ELSE 'NONE' END,
        wake_time = NULL, update_time = v_now WHERE id = p_id;
    WHEN p_verdict = 'retry' AND JSON_EXTRACT(v_policy, '$.retry_handler') IS NOT NULL THEN
      UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = 'undecided', losses = 0, error = p_text, worker_id = 'NONE',
        retry_override = IF(p_after > 0, CONCAT(p_after, 'us'), v_override), wake_time = NULL, update_time = v_now WHERE id = p_id;
      SET p_state = 'error';
    ELSE
      {inline end}
    END CASE;
    IF v_was IN ('locked', 'awaiting', 'throttled') THEN
      CALL {jobs}$let_in(p_own, v_shard, v_group, v_factor);
    END IF;
  END IF;
END
