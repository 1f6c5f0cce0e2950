-- Fills NULLs from the job's type. A type that no config names has the queue's defaults, unless strict_types is set.
CREATE PROCEDURE {self}(
  IN p_type VARBINARY(255), IN p_settings {text},
  INOUT p_timeout BIGINT, INOUT p_priority BIGINT, INOUT p_factor BIGINT, INOUT p_windows {text})
{traits}
BEGIN
  DECLARE v_found BOOLEAN DEFAULT FALSE;
  DECLARE v_timeout, v_priority, v_factor BIGINT;
  DECLARE v_windows {text};
  DECLARE v_strict BOOLEAN DEFAULT COALESCE(JSON_UNQUOTE(JSON_EXTRACT(NULLIF(p_settings, 'NONE'), '$.strict_types')) = 'true', FALSE);
  SELECT TRUE, t.timeout, t.priority, t.throttle_factor, t.time_windows
    INTO v_found, v_timeout, v_priority, v_factor, v_windows
  FROM {job_types} t WHERE t.queue = '{queue}' AND t.job_type IN (p_type, IF(v_strict, p_type, '*')) ORDER BY t.job_type = '*' LIMIT 1;
  IF NOT v_found AND v_strict THEN
    CALL {job}$refuse(31004, CONCAT('unknown job type ', CONVERT(p_type USING utf8mb4), ' (strict_types)'));
  ELSEIF NOT v_found THEN
    SET v_factor = 1, v_windows = 'NONE',
      v_timeout = COALESCE(JSON_EXTRACT(NULLIF(p_settings, 'NONE'), '$.default_timeout') DIV 1000000000, 86400),
      v_priority = COALESCE(JSON_EXTRACT(NULLIF(p_settings, 'NONE'), '$.default_priority'), 100);
  END IF;
  SET p_timeout = COALESCE(p_timeout, v_timeout), p_priority = COALESCE(p_priority, v_priority),
    p_factor = COALESCE(p_factor, v_factor), p_windows = COALESCE(p_windows, v_windows);
END
