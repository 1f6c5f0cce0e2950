-- Starts a job that a worker has grabbed. If it may not start now, p_refusal says why, and the job goes back; if its
-- windows are closed, until they open.
CREATE PROCEDURE {self}(IN p_worker {id}, IN p_id BIGINT, IN p_token {text}, OUT p_attempt BIGINT, OUT p_refusal VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
{traits}
BEGIN
  DECLARE v_state, v_status VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_holder, v_lock, v_attempt_token VARBINARY(36);
  DECLARE v_type VARBINARY(255);
  DECLARE v_key VARBINARY(255);
  DECLARE v_zone, v_windows {text};
  DECLARE v_paused, v_unserved, v_works BOOLEAN;
  DECLARE v_host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'NONE';
  DECLARE v_pid INT DEFAULT 0;
  DECLARE v_now, v_at, v_opening DATETIME(6);
  SET p_attempt = NULL, p_refusal = NULL;
  SELECT w.state = 'working' AND w.lock_until > {now}, w.host, w.pid INTO v_works, v_host, v_pid FROM {workers} w WHERE w.id = p_worker;
  IF NOT COALESCE(v_works, FALSE) THEN
    CALL {job}$find_worker(p_worker);
  END IF;
  SELECT j.state, j.status, j.worker_id, j.lock_token, j.attempt_token, j.attempt, j.time_windows, j.scheduled_run_time, j.job_type, j.job_key
    INTO v_state, v_status, v_holder, v_lock, v_attempt_token, p_attempt, v_windows, v_at, v_type, v_key
  FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id FOR UPDATE;
  CALL {job}$check_holder(p_worker, p_id, p_token, TRUE, v_state, v_status, v_holder, v_lock, v_attempt_token);
  -- pausing the queue waits for these locks, so nothing starts after a pause
  SELECT JSON_EXTRACT(NULLIF(q.settings, 'NONE'), '$.zone'), q.paused,
    {inline unserved}
    INTO v_zone, v_paused, v_unserved
  FROM {queues} q WHERE q.queue = '{queue}' LOCK IN SHARE MODE;
  SET v_now = {now};
  IF v_windows <> 'NONE' THEN
    CALL {job}$opening(v_windows, v_zone, v_now, v_opening);
  END IF;
  IF v_paused THEN
    SET p_refusal = 'the queue is paused; the job has gone back';
  ELSEIF v_unserved THEN
    SET p_refusal = 'the queue now has throttle_groups, a rate or shards; the job has gone back';
  ELSEIF v_opening > v_now THEN
    SET p_refusal = 'the job''s windows have closed; it has gone back until they open', v_at = v_opening;
  END IF;
  IF p_refusal IS NOT NULL THEN
    UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = IF(v_at > v_now, 'scheduled', 'available'), wake_time = IF(v_at > v_now, v_at, NULL),
      scheduled_run_time = v_at, worker_id = 'NONE', lock_token = 'NONE' WHERE id = p_id;
  ELSE
    SET p_attempt = p_attempt + 1;
    UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = 'running', attempt = p_attempt, attempt_token = lock_token, start_time = v_now,
      update_time = v_now, error = 'NONE', result = 'NONE', stopping = 0, wake_time = NULL WHERE id = p_id;
    INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key, worker_id, host, pid, attempt, wait_ms)
    VALUES (v_now, 'job', 'starting', '{queue}', p_id, v_type, v_key, p_worker, v_host, v_pid, p_attempt,
      GREATEST(0, TIMESTAMPDIFF(MICROSECOND, v_at, v_now) DIV 1000));
  END IF;
END
