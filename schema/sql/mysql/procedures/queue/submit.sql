-- Adds a job of this queue, as hipq enqueue does. Whether its key is taken the unique index decides, never a look before.
CREATE PROCEDURE {self}(IN p_type {text}, IN p_key {text}, IN p_data {text}, IN p_options {text}, OUT p_id BIGINT, OUT p_duplicate BOOLEAN)
{traits}
BEGIN
  DECLARE v_type VARBINARY(64);
  DECLARE v_key VARBINARY(255);
  DECLARE v_shard_key VARBINARY(255) DEFAULT 'NONE';
  DECLARE v_settings, v_windows, v_name, v_text, v_kind {text};
  DECLARE v_number DECIMAL(30, 9);
  DECLARE v_us, v_in, v_timeout, v_priority, v_factor BIGINT;
  DECLARE v_at, v_now, v_opening DATETIME(6);
  DECLARE v_i, v_tries INT DEFAULT 0;
  DECLARE v_division INT;
  DECLARE v_place INT DEFAULT 1000;
  DECLARE v_known, v_taken BOOLEAN DEFAULT FALSE;

  IF p_type IS NULL OR p_type = '' OR p_type = 'NONE' THEN
    CALL {job}$refuse(31001, 'job_type is missing');
  ELSEIF LENGTH(p_type) > 64 THEN
    CALL {job}$refuse(31002, CONCAT('job_type has ', LENGTH(p_type), ' bytes, allowed are 64'));
  ELSEIF p_type REGEXP '[\\x{0}-\\x{1f}\\x{7f}-\\x{9f}]' THEN
    CALL {job}$refuse(31002, 'job_type has a control character');
  ELSEIF LENGTH(p_key) > 255 THEN
    CALL {job}$refuse(31002, CONCAT('job_key has ', LENGTH(p_key), ' bytes, allowed are 255'));
  ELSEIF LOCATE(CHAR(0 USING utf8mb4), p_key) > 0 THEN
    CALL {job}$refuse(31002, 'job_key has a control character, NUL');
  ELSEIF LENGTH(p_data) > 1048576 THEN
    CALL {job}$refuse(31002, CONCAT('job_data has ', LENGTH(p_data), ' bytes, allowed are 1048576; store it elsewhere'));
  ELSEIF p_options IS NOT NULL AND (NOT JSON_VALID(p_options) OR JSON_TYPE(p_options) <> 'OBJECT') THEN
    CALL {job}$refuse(31002, 'options is not a JSON object');
  ELSEIF JSON_LENGTH(p_options) <> JSON_LENGTH(JSON_KEYS(p_options)) THEN -- MySQL doesn't see that: it takes the last
    CALL {job}$refuse(31002, 'options: a name is there twice');
  END IF;
  SET v_type = p_type, v_key = IF(LENGTH(p_key) > 0, p_key, CAST(UUID() AS CHAR));

  WHILE v_i < COALESCE(JSON_LENGTH(JSON_KEYS(p_options)), 0) DO
    SET v_name = JSON_UNQUOTE(JSON_EXTRACT(JSON_KEYS(p_options), CONCAT('$[', v_i, ']'))), v_i = v_i + 1;
    IF v_name NOT IN ('priority', 'at', 'in', 'timeout', 'throttle_factor', 'time_windows', 'shard_key') OR RIGHT(v_name, 1) = ' ' THEN -- which no comparison sees
      CALL {job}$refuse(31002, CONCAT('options: there is no ', v_name, '; there are priority, at, in, timeout, throttle_factor, time_windows, shard_key'));
    END IF;
    SET v_text = JSON_EXTRACT(p_options, CONCAT('$.', v_name)), v_kind = JSON_TYPE(v_text);
    IF v_kind = 'STRING' THEN
      SET v_text = JSON_UNQUOTE(v_text);
    END IF;
    IF v_kind = 'NULL' THEN
      SET v_kind = NULL; -- as if it weren't there
    ELSEIF v_name IN ('priority', 'throttle_factor') THEN
      IF NOT v_text REGEXP '^-?[0-9]{1,12}$' OR v_kind <> 'INTEGER' THEN
        CALL {job}$refuse(31002, CONCAT('options: ', v_name, ' ', v_text, ' is not a whole number in its range'));
      ELSEIF v_name = 'priority' THEN
        SET v_priority = v_text;
      ELSE
        SET v_factor = v_text;
      END IF;
    ELSEIF v_name = 'timeout' AND v_kind = 'INTEGER' AND v_text REGEXP '^-?[0-9]{1,12}$' THEN
      SET v_timeout = v_text;
    ELSEIF v_name = 'timeout' AND v_kind <> 'STRING' THEN
      CALL {job}$refuse(31002, CONCAT('options: timeout ', v_text, ' is neither a number of whole seconds nor a text such as "30s"'));
    ELSEIF v_name <> 'time_windows' AND v_kind <> 'STRING' THEN
      CALL {job}$refuse(31002, CONCAT('options: ', v_name, ' ', v_text, ' is not a text'));
    ELSEIF v_name = 'shard_key' AND LENGTH(v_text) > 255 THEN
      CALL {job}$refuse(31002, CONCAT('options: shard_key has ', LENGTH(v_text), ' bytes, allowed are 255'));
    ELSEIF v_name = 'shard_key' THEN
      SET v_shard_key = IF(v_text = '', 'NONE', v_text);
    ELSEIF v_name = 'timeout' THEN
      CALL {job}$duration('timeout', v_text, v_us);
      IF v_us % 1000000 <> 0 THEN
        CALL {job}$refuse(31002, CONCAT('options: timeout ', v_text, ' is not a number of whole seconds'));
      END IF;
      SET v_timeout = v_us DIV 1000000;
    ELSEIF v_name = 'in' THEN
      CALL {job}$duration('in', v_text, v_in);
    ELSEIF v_name = 'at' THEN
      CALL {job}$instant('at', v_text, v_at);
    ELSEIF v_kind <> 'ARRAY' THEN
      CALL {job}$refuse(31002, 'options: time_windows is not a list such as ["05:00-07:00", "mon-fri 09:00-17:30"]');
    ELSE
      SET v_windows = v_text;
    END IF;
  END WHILE;
  IF v_at IS NOT NULL AND v_in IS NOT NULL THEN
    CALL {job}$refuse(31002, 'options: at and in contradict each other');
  ELSEIF v_priority NOT BETWEEN -2147483647 AND 2147483647 THEN
    CALL {job}$refuse(31002, CONCAT('options: priority ', v_priority, ' is not from -2147483647 to 2147483647'));
  ELSEIF v_timeout NOT BETWEEN 1 AND 316224000 THEN
    CALL {job}$refuse(31002, CONCAT('options: timeout ', v_timeout, ' is not a number of seconds from 1 to 316224000'));
  ELSEIF v_factor NOT BETWEEN 0 AND 2147483647 THEN
    CALL {job}$refuse(31002, CONCAT('options: throttle_factor ', v_factor, ' is not from 0 to 2147483647'));
  END IF;

  SELECT q.settings, q.division INTO v_settings, v_division FROM {queues} q WHERE q.queue = '{queue}';
  IF v_settings IS NULL THEN
    CALL {job}$refuse(31003, 'unknown queue {queue}');
  END IF;
  CALL {jobs}$type(v_type, v_settings, v_timeout, v_priority, v_factor, v_windows);
  IF v_factor = 0 AND JSON_UNQUOTE(JSON_EXTRACT(NULLIF(v_settings, 'NONE'), '$.refuse_weightless')) = 'true' THEN
    CALL {job}$refuse(31002, 'with throttle_factor 0 it would pass the limits by, which this queue refuses (allow_weightless: false)');
  END IF;
  IF JSON_VALID(v_windows) AND JSON_LENGTH(v_windows) = 0 THEN
    SET v_windows = 'NONE';
  END IF;
  IF LENGTH(v_windows) > 65535 THEN
    CALL {job}$refuse(31002, 'options: time_windows is too long');
  END IF;
  SET v_now = UTC_TIMESTAMP(6);
  SET v_at = COALESCE(v_at, v_now + INTERVAL v_in MICROSECOND, v_now);
  CALL {job}$opening(v_windows, JSON_EXTRACT(NULLIF(v_settings, 'NONE'), '$.zone'), v_at, v_opening);
  IF v_opening IS NULL THEN
    CALL {job}$refuse(31002, 'options: time_windows is not a list such as ["05:00-07:00", "mon-fri 09:00-17:30"]');
  END IF;

  IF v_division > 1 THEN
    CALL {jobs}$place(v_division, JSON_UNQUOTE(JSON_EXTRACT(NULLIF(v_settings, 'NONE'), '$.throttle_groups.by')), v_type, v_key, v_shard_key,
      IF(LENGTH(p_data) > 0, p_data, 'NONE'), v_place);
  END IF;
  SET p_id = NULL, p_duplicate = FALSE;
  WHILE p_id IS NULL DO
    BEGIN
      DECLARE CONTINUE HANDLER FOR 1062 SET v_taken = TRUE;
      SET v_taken = FALSE;
      INSERT INTO {jobs} (job_type, job_data, job_key, shard_key, timeout, priority, throttle_factor, time_windows, shard, line, scheduled_run_time,
        wake_time, start_time, create_time, update_time)
      VALUES (v_type, IF(LENGTH(p_data) > 0, p_data, 'NONE'), v_key, v_shard_key, v_timeout, v_priority, v_factor, v_windows,
        COALESCE(v_place, 1000), CASE WHEN v_place IS NULL THEN 'new' WHEN v_opening > v_now THEN 'later' ELSE 'due' END, v_opening,
        IF(v_place IS NOT NULL AND v_opening > v_now, v_opening, NULL), v_now, v_now, v_now);
    END;
    IF NOT v_taken THEN
      SET p_id = LAST_INSERT_ID();
      IF v_place IS NOT NULL THEN -- else hipq work takes the row in, and says so
        INSERT INTO {activity} (at, kind, state, queue, job_id, job_type, job_key) VALUES (v_now, 'job', 'added', '{queue}', p_id, v_type, v_key);
      END IF;
    ELSE
      -- LOCK IN SHARE MODE reads what is committed now, also where the caller's transaction sees an older time
      SET p_id = (SELECT j.id FROM {jobs} j FORCE INDEX ({jobs}$live)
        WHERE j.job_type = v_type AND j.job_key = v_key AND j.live = 1 LOCK IN SHARE MODE);
      SET p_duplicate = p_id IS NOT NULL, v_tries = v_tries + 1;
      IF p_id IS NULL AND v_tries > 10 THEN
        CALL {job}$refuse(31015, 'the key is taken and given back all the time: call again');
      END IF;
    END IF;
  END WHILE;
END
