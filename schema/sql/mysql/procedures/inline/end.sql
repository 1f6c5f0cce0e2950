-- ends the attempt by p_verdict (finished, retry, failed, release or cancelled) and p_text. p_worker says so, v_holder stays in the row
IF p_verdict = 'release' AND p_count AND GREATEST(1, v_attempt - v_uncounted) >= JSON_EXTRACT(v_policy, '$.attempts') THEN
  SET p_verdict = 'failed', p_text = 'released in its last attempt';
ELSEIF p_verdict = 'release' THEN
  SET p_text = 'NONE';
END IF;
SET p_state = 'final', v_status = CASE p_verdict WHEN 'finished' THEN 'finished' WHEN 'cancelled' THEN 'closed' ELSE 'failed' END;
IF p_verdict = 'release' OR p_verdict = 'retry' AND GREATEST(1, v_attempt - v_uncounted) < JSON_EXTRACT(v_policy, '$.attempts') THEN
  CALL {job}$delay(v_policy, GREATEST(1, v_attempt - v_uncounted), RAND(), v_delay);
  SET p_time = v_now + INTERVAL IF(p_after > 0, p_after, FLOOR(v_delay)) MICROSECOND;
  -- invalid windows no longer delay the job: hipq work reports them
  CALL {job}$opening(v_windows, v_zone, p_time, v_opening);
  SET p_time = COALESCE(v_opening, p_time), p_state = 'retry', v_status = IF(p_time > v_now, 'scheduled', 'available');
END IF;
INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key, worker_id, host, pid, attempt, run_ms, error, output)
VALUES (v_now, 'job', IF(v_good, 'finished', CASE WHEN p_state = 'final' THEN 'failed' WHEN p_verdict = 'release' THEN 'released' ELSE 'error' END), '{queue}', p_id, v_type, v_key, p_worker, v_host, v_pid,
  v_attempt, v_ran, IF(v_good, 'NONE', p_text), v_output);
IF p_state = 'final' AND IF(v_good, v_keep_finished, v_keep_failed) = 0 THEN
  DELETE FROM {jobs} WHERE id = p_id;
ELSE
  UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = v_status, losses = 0, error = IF(v_good, 'NONE', p_text), worker_id = v_holder,
    result = IF(v_good, p_text, v_result), scheduled_run_time = p_time, wake_time = IF(v_status = 'scheduled', p_time, NULL), update_time = v_now,
    uncounted = uncounted + (p_verdict = 'release' AND NOT COALESCE(p_count, FALSE)), retry_override = 'NONE', output = 'NONE' WHERE id = p_id;
END IF;
