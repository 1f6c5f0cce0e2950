-- Adds a job of this queue, as hipq enqueue does. Only the unique index decides whether the key is taken. p_by, if not NULL,
-- is an operator who repeats a job, also one of an unknown type.
CREATE PROCEDURE {self}(IN p_type {text}, IN p_key {text}, IN p_data {text}, IN p_options {text}, IN p_by {text}, IN p_own BOOLEAN, OUT p_id BIGINT, OUT p_duplicate BOOLEAN)
{traits}
BEGIN
  DECLARE v_type VARBINARY(255);
  DECLARE v_key VARBINARY(255);
  DECLARE v_group VARBINARY(255);
  DECLARE v_shard_key VARBINARY(255) DEFAULT 'NONE';
  DECLARE v_settings, v_windows, v_text {text};
  DECLARE v_us, v_in, v_timeout, v_priority, v_factor, v_shard, v_weight BIGINT;
  DECLARE v_at, v_now, v_opening DATETIME(6);
  DECLARE v_tries INT DEFAULT 0;
  DECLARE v_divided, v_taken BOOLEAN DEFAULT FALSE;
  DECLARE v_mode, v_state, v_was VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'ignore';

  IF p_type IS NULL OR p_type = '' OR p_type = 'NONE' THEN
    CALL {job}$refuse(31001, 'job_type is missing');
  ELSEIF LENGTH(p_type) > 255 THEN
    CALL {job}$refuse(31002, CONCAT('job_type has ', LENGTH(p_type), ' bytes; the maximum is 255'));
  ELSEIF p_type = '*' THEN
    CALL {job}$refuse(31002, 'job_type * stands for all types; give the job''s own');
  ELSEIF p_type REGEXP '[\\x{0}-\\x{1f}\\x{7f}-\\x{9f}]' THEN
    CALL {job}$refuse(31002, 'job_type has a control character');
  ELSEIF LENGTH(p_key) > 255 THEN
    CALL {job}$refuse(31002, CONCAT('job_key has ', LENGTH(p_key), ' bytes; the maximum is 255'));
  ELSEIF LOCATE(CHAR(0 USING utf8mb4), p_key) > 0 THEN
    CALL {job}$refuse(31002, 'job_key has a control character, NUL');
  ELSEIF LENGTH(p_data) = 0 THEN -- PHP's json_encode returns that instead of an error
    CALL {job}$refuse(31002, 'job_data is empty: pass NULL if there is none; did encoding it as JSON fail?');
  ELSEIF LENGTH(p_data) > 1048576 THEN
    CALL {job}$refuse(31002, CONCAT('job_data has ', LENGTH(p_data), ' bytes; the maximum is 1048576; store it elsewhere'));
  ELSEIF p_data = 'NONE' AND LENGTH(p_data) = 4 THEN -- else a trailing blank wouldn't count
    CALL {job}$refuse(31002, 'job_data NONE stands for no data: pass NULL, or write it differently');
  END IF;
  SET v_type = p_type, v_key = IF(LENGTH(p_key) > 0, p_key, CAST(UUID() AS CHAR));

  IF p_options IS NOT NULL THEN
    CALL {job}$options(p_options, 'priority, at, in, timeout, throttle_factor, time_windows, shard_key, on_duplicate');
    CALL {job}$whole(p_options, 'priority', -2147483647, 2147483647, v_priority);
    CALL {job}$whole(p_options, 'throttle_factor', 0, 2147483647, v_factor);
    {inline when}
    CALL {job}$span(p_options, 'timeout', v_us);
    IF v_us NOT BETWEEN 1000000 AND 316224000000000 OR v_us % 1000000 <> 0 THEN
      CALL {job}$refuse(31002, CONCAT('options: timeout ', JSON_EXTRACT(p_options, '$.timeout'), ' is not a number of seconds from 1 to 316224000'));
    END IF;
    SET v_timeout = v_us DIV 1000000, v_text = JSON_EXTRACT(p_options, '$.shard_key');
    IF JSON_TYPE(v_text) NOT IN ('STRING', 'NULL') OR LENGTH(JSON_UNQUOTE(v_text)) > 255 THEN
      CALL {job}$refuse(31002, 'options: shard_key is not a text of at most 255 bytes');
    ELSEIF JSON_TYPE(v_text) = 'STRING' AND v_text <> '""' THEN
      SET v_shard_key = JSON_UNQUOTE(v_text);
    END IF;
    SET v_text = JSON_EXTRACT(p_options, '$.on_duplicate');
    IF JSON_TYPE(v_text) <> 'NULL' AND v_text NOT IN ('"ignore"', '"error"', '"replace"') THEN
      CALL {job}$refuse(31002, CONCAT('options: on_duplicate ', v_text, ' is not one of ignore, error, replace'));
    ELSEIF JSON_TYPE(v_text) <> 'NULL' THEN
      SET v_mode = JSON_UNQUOTE(v_text);
    END IF;
    SET v_text = JSON_EXTRACT(p_options, '$.time_windows');
    SET v_windows = CASE WHEN JSON_TYPE(v_text) = 'NULL' THEN NULL WHEN JSON_TYPE(v_text) = 'ARRAY' AND JSON_LENGTH(v_text) = 0 THEN 'NONE' ELSE v_text END;
  END IF;

  SELECT q.settings, q.division > 1 INTO v_settings, v_divided FROM {queues} q WHERE q.queue = '{queue}';
  IF v_settings IS NULL THEN
    CALL {job}$refuse(31003, 'unknown queue {queue}');
  END IF;
  CALL {jobs}$type(v_type, IF(p_by IS NULL, v_settings, JSON_REMOVE(NULLIF(v_settings, 'NONE'), '$.strict_types')), v_timeout, v_priority, v_factor, v_windows);
  IF v_factor = 0 AND JSON_UNQUOTE(JSON_EXTRACT(NULLIF(v_settings, 'NONE'), '$.refuse_weightless')) = 'true' THEN
    CALL {job}$refuse(31002, 'with throttle_factor 0 it would bypass the throttle limit and groups, which this queue refuses (allow_weightless: false)');
  END IF;
  IF LENGTH(v_windows) > 2048 THEN
    CALL {job}$refuse(31002, 'options: time_windows has more than 2048 bytes');
  END IF;
  SET v_now = {now};
  SET v_at = COALESCE(v_at, v_now + INTERVAL v_in MICROSECOND, v_now);
  CALL {job}$opening(v_windows, JSON_EXTRACT(NULLIF(v_settings, 'NONE'), '$.zone'), v_at, v_opening);
  IF v_opening IS NULL THEN
    CALL {job}$refuse(31002, 'options: time_windows is not a list such as ["05:00-07:00", "mon-fri 09:00-17:30"]');
  END IF;

  SET p_id = NULL, p_duplicate = FALSE;
  WHILE p_id IS NULL DO
    IF v_mode = 'replace' THEN
      -- before the insert, whose refusal would leave a shared lock: two calls would deadlock
      SELECT j.id, j.state, j.status, j.shard, j.throttle_group, j.throttle_factor INTO p_id, v_state, v_was, v_shard, v_group, v_weight FROM {jobs} j FORCE INDEX ({jobs}$live)
      WHERE j.job_type = v_type AND j.job_key = v_key AND j.live = 1 FOR UPDATE;
    END IF;
    IF p_id IS NOT NULL AND v_state <> 'initial' THEN
      CALL {job}$refuse(31019, CONCAT('job ', p_id, ' has started: it is not replaced'));
    ELSEIF p_id IS NOT NULL THEN
      -- shard 0 is no place: hipq work finds the new one
      UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = CASE WHEN status = 'submitted' THEN status WHEN v_opening > v_now THEN 'scheduled' ELSE 'available' END,
        wake_time = IF(status = 'scheduled', v_opening, NULL), scheduled_run_time = v_opening, update_time = v_now, worker_id = 'NONE', lock_token = 'NONE',
        job_data = COALESCE(p_data, 'NONE'), timeout = v_timeout, priority = v_priority, throttle_factor = v_factor, time_windows = v_windows,
        shard_key = v_shard_key, shard = IF(v_divided, 0, shard), throttle_group = 'NONE' WHERE id = p_id;
      SET p_duplicate = TRUE;
      IF v_was = 'throttled' THEN
        CALL {jobs}$let_in(p_own, v_shard, v_group, v_weight);
      END IF;
    ELSE
      BEGIN
        DECLARE CONTINUE HANDLER FOR 1062 SET v_taken = TRUE;
        SET v_taken = FALSE;
        INSERT INTO {jobs} (job_type, job_data, job_key, shard_key, timeout, priority, throttle_factor, time_windows, status, scheduled_run_time,
          wake_time, start_time, create_time, update_time)
        VALUES (v_type, COALESCE(p_data, 'NONE'), v_key, v_shard_key, v_timeout, v_priority, v_factor, v_windows,
          CASE WHEN v_divided THEN 'submitted' WHEN v_opening > v_now THEN 'scheduled' ELSE 'available' END, v_opening,
          IF(v_opening > v_now AND NOT v_divided, v_opening, NULL), v_now, v_now, v_now);
      END;
      IF NOT v_taken THEN
        SET p_id = LAST_INSERT_ID();
        IF NOT v_divided THEN -- else hipq work ingests the row like one of plain SQL, and logs it
          INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key, output)
          VALUES (v_now, 'job', 'added', '{queue}', p_id, v_type, v_key, COALESCE(p_by, 'NONE'));
        END IF;
      ELSE
        SET v_tries = v_tries + 1;
        IF v_mode <> 'replace' THEN
          -- LOCK IN SHARE MODE reads what is committed now, whatever the caller's snapshot
          SET p_id = (SELECT j.id FROM {jobs} j FORCE INDEX ({jobs}$live)
            WHERE j.job_type = v_type AND j.job_key = v_key AND j.live = 1 LOCK IN SHARE MODE);
          SET p_duplicate = p_id IS NOT NULL;
        END IF;
        IF p_duplicate AND v_mode = 'error' THEN
          CALL {job}$refuse(31018, CONCAT('job ', p_id, ' has this type and key, and is not final'));
        ELSEIF p_id IS NULL AND v_tries > 10 THEN
          CALL {job}$refuse(31015, 'the key is taken and freed again and again: repeat the call');
        END IF;
      END IF;
    END IF;
  END WHILE;
END
