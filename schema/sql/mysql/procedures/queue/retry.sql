-- Adds a copy of a failed job and closes that one, as hipq retry does, or with p_dismiss only closes it, as hipq dismiss.
CREATE PROCEDURE {self}(IN p_id BIGINT, IN p_type {text}, IN p_key {text}, IN p_dismiss BOOLEAN,
  OUT p_state VARCHAR(16) CHARACTER SET ascii, OUT p_new BIGINT, OUT p_duplicate BOOLEAN)
{traits}
BEGIN
  DECLARE v_status VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_data, v_error, v_windows, v_options {text};
  DECLARE v_type, v_key, v_shard_key VARBINARY(256);
  DECLARE v_timeout, v_priority, v_factor, v_retried BIGINT;
  CALL {jobs}$find(p_id, p_type, p_key);
  SET p_state = NULL;
  SELECT j.state, j.status, j.job_type, j.job_key, j.job_data, j.error, j.time_windows, j.shard_key, j.timeout, j.priority, j.throttle_factor, NULLIF(j.retried_as, 0)
    INTO p_state, v_status, v_type, v_key, v_data, v_error, v_windows, v_shard_key, v_timeout, v_priority, v_factor, v_retried
  FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id FOR UPDATE;
  SET p_type = CONVERT(v_type USING utf8mb4), p_key = CONVERT(v_key USING utf8mb4);
  IF p_state IS NULL THEN
    CALL {job}$refuse(31007, CONCAT('no job ', p_id));
  ELSEIF p_state <> 'final' THEN
    CALL {job}$refuse(31020, CONCAT('job ', p_id, ' is not final: it is ', p_state));
  ELSEIF NOT p_dismiss AND (v_retried IS NOT NULL OR v_status = 'closed' AND v_error <> 'cancelled') THEN
    CALL {job}$refuse(31022, CONCAT('job ', p_id, ' was ', COALESCE(CONCAT('retried, as job ', v_retried), 'dismissed')));
  ELSEIF v_status = 'finished' THEN
    CALL {job}$refuse(31021, CONCAT('job ', p_id, ' finished'));
  ELSEIF NOT p_dismiss AND COALESCE(CAST(p_type AS BINARY) <> v_type OR CAST(p_key AS BINARY) <> v_key, TRUE) THEN
    CALL {job}$refuse(31002, CONCAT('job ', p_id, ' has a type or key that is not UTF-8'));
  END IF;
  IF p_dismiss THEN
    IF v_status <> 'closed' THEN
      INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key, attempt, output)
      SELECT {now}, 'job', 'dismissed', '{queue}', p_id, j.job_type, j.job_key, j.attempt, CONCAT('by ', USER()) FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id;
    END IF;
    UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = 'closed' WHERE id = p_id;
  ELSE
    SET v_options = CONCAT('{"timeout": ', COALESCE(v_timeout, 'null'), ', "priority": ', COALESCE(v_priority, 'null'),
      ', "throttle_factor": ', COALESCE(v_factor, 'null'), ', "time_windows": ', COALESCE(IF(v_windows = 'NONE', '[]', v_windows), 'null'),
      ', "shard_key": ', JSON_QUOTE(CONVERT(IF(v_shard_key = 'NONE', '', v_shard_key) USING utf8mb4)), '}');
    CALL {jobs}$submit(p_type, p_key, IF(v_data = 'NONE' AND LENGTH(v_data) = 4, NULL, v_data), v_options, CONCAT('by ', USER()), FALSE, p_new, p_duplicate);
    IF NOT p_duplicate THEN
      UPDATE {jobs} FORCE INDEX (PRIMARY) SET retry_of = p_id WHERE id = p_new;
      INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key, attempt, output)
      SELECT {now}, 'job', 'retried', '{queue}', p_id, j.job_type, j.job_key, j.attempt, CONCAT('by ', USER()) FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id;
      UPDATE {jobs} FORCE INDEX (PRIMARY) SET retried_as = p_new, status = IF(status = 'failed', 'closed', status) WHERE id = p_id; -- purge uses update_time
    END IF;
    SELECT j.state INTO p_state FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_new;
  END IF;
END
