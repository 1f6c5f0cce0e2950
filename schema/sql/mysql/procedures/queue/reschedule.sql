-- Changes when a waiting job runs, or its priority, as hipq reschedule does.
CREATE PROCEDURE {self}(IN p_id BIGINT, IN p_type {text}, IN p_key {text}, IN p_options {text}, IN p_own BOOLEAN,
  OUT p_state VARCHAR(16) CHARACTER SET ascii, OUT p_time DATETIME(6))
{traits}
BEGIN
  DECLARE v_group VARBINARY(255);
  DECLARE v_windows, v_zone {text};
  DECLARE v_factor, v_shard, v_in, v_priority BIGINT;
  DECLARE v_now, v_at DATETIME(6);
  DECLARE p_running BOOLEAN DEFAULT FALSE;
  CALL {job}$options(COALESCE(p_options, '{}'), 'at, in, priority');
  {inline when}
  CALL {job}$whole(p_options, 'priority', -2147483647, 2147483647, v_priority);
  IF COALESCE(v_at, v_in, v_priority) IS NULL THEN
    CALL {job}$refuse(31001, 'options: at, in or priority is missing');
  END IF;
  CALL {jobs}$find(p_id, p_type, p_key);
  SET p_state = NULL;
  SELECT j.state, j.throttle_group, COALESCE(j.time_windows, 'NONE'), j.throttle_factor, j.shard, j.scheduled_run_time
    INTO p_state, v_group, v_windows, v_factor, v_shard, p_time
  FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id FOR UPDATE;
  {inline waits}
  SELECT JSON_EXTRACT(NULLIF(q.settings, 'NONE'), '$.zone') INTO v_zone FROM {queues} q WHERE q.queue = '{queue}';
  SET v_now = {now}, v_at = COALESCE(v_now + INTERVAL v_in MICROSECOND, GREATEST(v_at, v_now), p_time);
  CALL {job}$opening(v_windows, v_zone, v_at, p_time);
  IF p_time IS NULL THEN
    CALL {job}$refuse(31002, CONCAT('job ', p_id, ' has invalid time windows'));
  END IF;
  CALL {jobs}$let_in(p_own, v_shard, v_group, v_factor);
  INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key, attempt, output)
  SELECT v_now, 'job', 'rescheduled', '{queue}', p_id, j.job_type, j.job_key, j.attempt, CONCAT('by ', USER()) FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id;
  UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = CASE WHEN status = 'submitted' THEN status WHEN p_time > v_now THEN 'scheduled' ELSE 'available' END,
    wake_time = IF(status = 'scheduled', p_time, NULL), scheduled_run_time = p_time, update_time = v_now, worker_id = 'NONE', lock_token = 'NONE',
    priority = COALESCE(v_priority, priority) WHERE id = p_id;
END
