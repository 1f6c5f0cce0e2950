-- Starts a job that a worker has grabbed. p_refusal says why it may not start now: then it goes back, to the opening of its
-- windows if they are closed.
CREATE PROCEDURE {self}(IN p_worker {id}, IN p_id BIGINT, IN p_token {text}, OUT p_attempt BIGINT, OUT p_refusal VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
{traits}
BEGIN
  DECLARE v_state, v_line VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_holder, v_lock, v_attempt_token VARBINARY(36);
  DECLARE v_type VARBINARY(64);
  DECLARE v_key VARBINARY(255);
  DECLARE v_settings, v_rate, v_windows {text};
  DECLARE v_paused, v_works BOOLEAN;
  DECLARE v_left BIGINT;
  DECLARE v_division, v_place, v_shard INT;
  DECLARE v_host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'NONE';
  DECLARE v_pid INT DEFAULT 0;
  DECLARE v_now, v_at, v_opening DATETIME(6);
  SET p_attempt = NULL, p_refusal = NULL;
  SELECT q.settings, q.paused, q.division, w.state = 'working' AND w.lock_until > UTC_TIMESTAMP(6), w.host, w.pid
    INTO v_settings, v_paused, v_division, v_works, v_host, v_pid
  FROM {queues} q LEFT JOIN {workers} w ON w.id = p_worker WHERE q.queue = '{queue}';
  IF NOT COALESCE(v_works, FALSE) THEN
    CALL {job}$find_worker(p_worker);
  END IF;
  IF v_settings <> 'NONE' THEN
    SET v_rate = JSON_EXTRACT(v_settings, '$.rate');
  END IF;
  -- the turn comes before the job, as with those who grab: so nobody waits crosswise
  IF v_rate IS NOT NULL THEN
    SET v_place = 1000;
    IF v_division > 1 THEN
      SELECT j.shard INTO v_place FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id;
    END IF;
    UPDATE {shards} s SET s.turn = s.turn % 1000000000 + 1 WHERE s.queue = '{queue}' AND s.shard = v_place;
  END IF;
  SELECT j.shard, j.state, j.line, j.worker_id, j.lock_token, j.attempt_token, j.attempt, j.time_windows, j.scheduled_run_time, j.job_type, j.job_key
    INTO v_shard, v_state, v_line, v_holder, v_lock, v_attempt_token, p_attempt, v_windows, v_at, v_type, v_key
  FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id FOR UPDATE;
  IF v_line = 'locked' AND v_state IN ('initial', 'retry') AND v_holder = p_worker AND v_lock = CAST(p_token AS BINARY) THEN
    SET v_now = UTC_TIMESTAMP(6);
  ELSE
    CALL {job}$judge(p_worker, p_id, p_token, TRUE, v_state, v_line, v_holder, v_lock, v_attempt_token); -- says why not
  END IF;
  IF v_windows <> 'NONE' THEN
    CALL {job}$opening(v_windows, JSON_EXTRACT(NULLIF(v_settings, 'NONE'), '$.zone'), v_now, v_opening);
  END IF;
  IF v_paused = 1 THEN
    SET p_refusal = 'the queue is paused; the job has gone back';
  ELSEIF v_shard DIV 1000 <> v_division OR v_shard <> v_place THEN
    SET p_refusal = 'the queue has been divided anew; the job has gone back';
  ELSEIF v_opening > v_now THEN
    SET p_refusal = 'the windows of the job have closed; it has gone back, to their opening', v_at = v_opening;
  ELSEIF v_rate IS NOT NULL THEN
    CALL {jobs}$rate(v_rate, v_place, 1, v_now, v_left);
    IF v_left < 1 THEN
      SET p_refusal = 'the rate of the queue is used up; the job has gone back';
    END IF;
  END IF;
  IF p_refusal IS NOT NULL THEN
    UPDATE {jobs} FORCE INDEX (PRIMARY) SET line = IF(v_at > v_now, 'later', 'due'), wake_time = IF(v_at > v_now, v_at, NULL),
      scheduled_run_time = v_at, worker_id = 'NONE', lock_token = 'NONE' WHERE id = p_id;
  ELSE
    SET p_attempt = p_attempt + 1;
    -- a suspect stays one while it runs, so that its worker grabs no other beside it
    UPDATE {jobs} FORCE INDEX (PRIMARY) SET state = 'running', attempt = p_attempt, attempt_token = lock_token, start_time = v_now,
      update_time = v_now, error = 'NONE', result = 'NONE', stopping = 0, answered = 0, wake_time = NULL WHERE id = p_id;
    INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key, worker_id, host, pid, attempt, wait_ms)
    VALUES (v_now, 'job', 'starting', '{queue}', p_id, v_type, v_key, p_worker, v_host, v_pid, p_attempt,
      GREATEST(0, TIMESTAMPDIFF(MICROSECOND, v_at, v_now) DIV 1000));
  END IF;
END
