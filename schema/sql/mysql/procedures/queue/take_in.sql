-- Takes in rows of plain SQL of one job type, a hundred at most: each gets its place among the shards. Those that may be no jobs are left
-- to hipq work, which says what is wrong with them, and so are those whose place SQL can't tell.
CREATE PROCEDURE {self}(IN p_type VARBINARY(64), IN p_division INT, IN p_settings {text}, IN p_worker {id}, IN p_now DATETIME(6))
{traits}
BEGIN
  DECLARE v_id, v_timeout, v_priority, v_factor, v_own_factor BIGINT;
  DECLARE v_windows, v_by, v_data {text};
  DECLARE v_key, v_shard_key VARBINARY(255);
  DECLARE v_place INT DEFAULT 1000;
  DECLARE v_at, v_opening DATETIME(6);
  DECLARE v_host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'NONE';
  DECLARE v_pid INT DEFAULT 0;
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE fresh CURSOR FOR SELECT id, job_key, shard_key, timeout, priority, throttle_factor, time_windows, scheduled_run_time
    FROM {jobs} FORCE INDEX ({jobs}${pick})
    WHERE line = 'new' AND shard = 1000 AND part = 'NONE' AND job_type = p_type AND state = 'initial' AND attempt = 0 AND wake_time IS NULL
      AND job_key <> '' AND LOCATE(CHAR(0), job_key) = 0 AND job_key = CAST(CONVERT(job_key USING utf8mb4) AS BINARY)
      AND OCTET_LENGTH(job_data) <= 1048576 AND COALESCE(timeout, 1) BETWEEN 1 AND 316224000
      AND COALESCE(priority, 0) >= -2147483647 AND COALESCE(throttle_factor, 0) <= 2147483647
      AND scheduled_run_time BETWEEN '1970-01-01' AND '9998-12-31'
    LIMIT 100 {skip_locked};
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  SELECT w.host, w.pid INTO v_host, v_pid FROM {workers} w WHERE w.id = p_worker; -- by itself, it locks nothing
  SET v_done = FALSE, v_by = JSON_UNQUOTE(JSON_EXTRACT(NULLIF(p_settings, 'NONE'), '$.throttle_groups.by'));
  OPEN fresh;
  walk: LOOP
    FETCH fresh INTO v_id, v_key, v_shard_key, v_timeout, v_priority, v_factor, v_windows, v_at;
    IF v_done THEN
      LEAVE walk;
    END IF;
    IF p_division > 1 THEN
      SELECT j.job_data INTO v_data FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = v_id;
      CALL {jobs}$place(p_division, v_by, p_type, v_key, v_shard_key, v_data, v_place);
    END IF;
    SET v_own_factor = v_factor;
    CALL {jobs}$type(p_type, JSON_REMOVE(NULLIF(p_settings, 'NONE'), '$.strict_types'), v_timeout, v_priority, v_factor, v_windows);
    CALL {job}$opening(v_windows, JSON_EXTRACT(NULLIF(p_settings, 'NONE'), '$.zone'), v_at, v_opening);
    IF v_opening IS NOT NULL AND v_place IS NOT NULL
      AND (v_own_factor IS NULL OR v_own_factor > 0 OR JSON_EXTRACT(NULLIF(p_settings, 'NONE'), '$.refuse_weightless') IS NULL) THEN
      UPDATE {jobs} FORCE INDEX (PRIMARY) SET line = IF(v_opening > p_now, 'later', 'due'), shard = v_place, scheduled_run_time = v_opening,
        wake_time = IF(v_opening > p_now, v_opening, NULL), timeout = v_timeout, priority = v_priority, throttle_factor = v_factor,
        time_windows = v_windows, throttle_group = 'NONE', error = 'NONE', result = 'NONE', stopping = 0, suspect = 0, update_time = p_now
      WHERE id = v_id AND line = 'new';
      INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key, worker_id, host, pid)
      VALUES (p_now, 'job', 'added', '{queue}', v_id, p_type, v_key, p_worker, v_host, v_pid);
    END IF;
    SET v_done = FALSE;
  END LOOP walk;
  CLOSE fresh;
END
