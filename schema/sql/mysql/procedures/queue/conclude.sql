-- Writes what comes of a job whose attempt has not finished well: another attempt, or the end. And tells of it. Its row is locked.
CREATE PROCEDURE {self}(
  IN p_id BIGINT, IN p_worker {id}, IN p_verdict VARCHAR(16) CHARACTER SET ascii, IN p_text {text}, IN p_after BIGINT, IN p_policy {text},
  IN p_now DATETIME(6), OUT p_state VARCHAR(16) CHARACTER SET ascii, OUT p_time DATETIME(6))
{traits}
BEGIN
  DECLARE v_line VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_error {text} DEFAULT COALESCE(NULLIF(p_text, ''), '{no_reason}');
  DECLARE v_windows, v_settings {text};
  DECLARE v_attempt, v_keep BIGINT;
  DECLARE v_delay DOUBLE;
  DECLARE v_host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'NONE';
  DECLARE v_pid INT DEFAULT 0;
  DECLARE v_opening, v_heard DATETIME(6);
  -- one that was lost ran until its worker was last heard of; FOR UPDATE reads the row as it is now, also where the caller's
  -- transaction sees an older time
  SELECT j.attempt, j.time_windows, j.scheduled_run_time,
    IF(j.wish LIKE 'until %', STR_TO_DATE(SUBSTR(j.wish, 7), '%Y-%m-%dT%H:%i:%s.%fZ'), NULL)
  INTO v_attempt, v_windows, p_time, v_heard
  FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id FOR UPDATE;
  SELECT q.settings, q.keep_failed INTO v_settings, v_keep FROM {queues} q WHERE q.queue = '{queue}';
  SET p_state = 'final', v_line = IF(p_verdict = 'cancelled', 'closed', 'failed');
  IF p_verdict = 'retry' AND v_attempt < JSON_EXTRACT(p_policy, '$.attempts') THEN
    CALL {job}$delay(p_policy, v_attempt, RAND(), v_delay);
    SET p_time = p_now + INTERVAL IF(p_after > 0, p_after, FLOOR(v_delay)) MICROSECOND;
    -- windows that can't be read hold it back no longer: hipq work says what is wrong with it
    CALL {job}$opening(v_windows, JSON_EXTRACT(NULLIF(v_settings, 'NONE'), '$.zone'), p_time, v_opening);
    SET p_time = COALESCE(v_opening, p_time);
    SET p_state = 'retry', v_line = IF(p_time > p_now, 'later', 'due');
  END IF;
  -- INSERT with a SELECT of the worker would lock that row under REPEATABLE READ, and hold up the heartbeat
  SELECT w.host, w.pid INTO v_host, v_pid FROM {workers} w WHERE w.id = p_worker;
  INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key, worker_id, host, pid, attempt, run_ms, error, output)
  SELECT p_now, 'job', IF(p_state = 'final', 'failed', 'error'), '{queue}',
    j.id, j.job_type, j.job_key, p_worker, v_host, v_pid, j.attempt,
    GREATEST(0, TIMESTAMPDIFF(MICROSECOND, j.start_time, COALESCE(v_heard, p_now)) DIV 1000), v_error, j.output
  FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id;
  IF p_state = 'final' AND v_keep = 0 THEN
    DELETE FROM {jobs} WHERE id = p_id;
  ELSE
    UPDATE {jobs} FORCE INDEX (PRIMARY) SET suspect = IF(line = 'locked', 0, suspect), state = p_state, line = v_line, error = v_error, result = 'NONE', scheduled_run_time = p_time,
      wake_time = IF(v_line = 'later', p_time, NULL), update_time = p_now, wish = 'NONE', answered = 0, output = 'NONE' WHERE id = p_id;
  END IF;
END
