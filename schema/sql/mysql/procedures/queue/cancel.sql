-- Ends a job that waits, as hipq cancel does; with p_running also one that has started, which its worker stops.
CREATE PROCEDURE {self}(IN p_id BIGINT, IN p_type {text}, IN p_key {text}, IN p_running BOOLEAN, IN p_own BOOLEAN,
  OUT p_state VARCHAR(16) CHARACTER SET ascii)
{traits}
BEGIN
  DECLARE v_status VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_type, v_key, v_group VARBINARY(255);
  DECLARE v_windows, v_settings {text};
  DECLARE v_timeout, v_priority, v_factor, v_shard, v_attempt, v_keep BIGINT;
  DECLARE v_at, v_now, v_opening DATETIME(6);
  DECLARE v_changed BOOLEAN;
  CALL {jobs}$find(p_id, p_type, p_key);
  SET p_state = NULL;
  SELECT j.state, j.status, j.job_type, j.job_key, j.throttle_group, j.time_windows, j.timeout, j.priority, j.throttle_factor, j.shard, j.attempt, j.scheduled_run_time
    INTO p_state, v_status, v_type, v_key, v_group, v_windows, v_timeout, v_priority, v_factor, v_shard, v_attempt, v_at
  FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id FOR UPDATE;
  {inline waits}
  SET v_now = {now};
  IF v_status IN ('running', 'answered', 'deciding') THEN
    UPDATE {jobs} FORCE INDEX (PRIMARY) SET stopping = 1 WHERE id = p_id;
    INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key, attempt, output)
    SELECT v_now, 'job', 'stopping', '{queue}', p_id, j.job_type, j.job_key, j.attempt, CONCAT('by ', USER()) FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id;
  ELSEIF p_state IN ('running', 'error') THEN
    CALL {jobs}$answer(p_id, NULL, NULL, NULL, 'cancelled', NULL, NULL, NULL, p_own, p_state, v_changed);
  ELSE
    SELECT q.settings, q.keep_failed INTO v_settings, v_keep FROM {queues} q WHERE q.queue = '{queue}';
    SET v_settings = JSON_REMOVE(NULLIF(v_settings, 'NONE'), '$.strict_types');
    IF v_status = 'submitted' THEN -- hipq work would ingest it first
      CALL {jobs}$type(v_type, v_settings, v_timeout, v_priority, v_factor, v_windows);
      CALL {job}$opening(v_windows, JSON_EXTRACT(v_settings, '$.zone'), v_at, v_opening);
      SET v_at = COALESCE(v_opening, v_at);
      INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key) VALUES (v_now, 'job', 'added', '{queue}', p_id, v_type, v_key);
    END IF;
    INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key, attempt, error, output)
    VALUES (v_now, 'job', 'cancelled', '{queue}', p_id, v_type, v_key, v_attempt, 'cancelled', CONCAT('by ', USER()));
    IF v_keep = 0 THEN
      DELETE FROM {jobs} WHERE id = p_id;
    ELSE
      UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = 'closed', error = 'cancelled', wake_time = NULL, worker_id = 'NONE', lock_token = 'NONE',
        update_time = v_now, timeout = v_timeout, priority = v_priority, throttle_factor = v_factor, time_windows = v_windows, scheduled_run_time = v_at
      WHERE id = p_id;
    END IF;
    CALL {jobs}$let_in(p_own, v_shard, v_group, v_factor);
    SET p_state = 'final';
  END IF;
END
