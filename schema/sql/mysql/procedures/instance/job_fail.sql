CREATE PROCEDURE {self}(IN worker_id {text}, IN queue {text}, IN id BIGINT, IN token {text}, IN error {text}, IN options {text})
{traits}
BEGIN
  DECLARE v_own BOOLEAN;
  DECLARE v_id {id};
  DECLARE v_table VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE v_verdict VARCHAR(16) CHARACTER SET ascii DEFAULT 'retry';
  DECLARE v_after BIGINT;
  DECLARE v_i INT DEFAULT 0;
  DECLARE v_name {text};
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    CALL {job}$undo(v_own);
    RESIGNAL;
  END;
  {inline find_queue}
  {inline check_worker}
  IF id IS NULL THEN
    CALL {job}$refuse(31001, 'id is missing');
  ELSEIF LENGTH(error) > 1048576 THEN
    CALL {job}$refuse(31002, CONCAT('error has ', LENGTH(error), ' bytes, allowed are 1048576'));
  ELSEIF options IS NOT NULL AND (NOT JSON_VALID(options) OR JSON_TYPE(options) <> 'OBJECT') THEN
    CALL {job}$refuse(31002, 'options is not a JSON object');
  ELSEIF JSON_LENGTH(options) <> JSON_LENGTH(JSON_KEYS(options)) THEN -- MySQL doesn't see that: it takes the last
    CALL {job}$refuse(31002, 'options: a name is there twice');
  END IF;
  WHILE v_i < COALESCE(JSON_LENGTH(JSON_KEYS(options)), 0) DO
    SET v_name = JSON_UNQUOTE(JSON_EXTRACT(JSON_KEYS(options), CONCAT('$[', v_i, ']'))), v_i = v_i + 1;
    IF v_name NOT IN ('final', 'retry_after') OR RIGHT(v_name, 1) = ' ' THEN
      CALL {job}$refuse(31002, CONCAT('options: there is no ', v_name, '; there are final, retry_after'));
    END IF;
  END WHILE;
  IF JSON_TYPE(JSON_EXTRACT(options, '$.final')) NOT IN ('BOOLEAN', 'NULL') THEN
    CALL {job}$refuse(31002, 'options: final is neither true nor false');
  ELSEIF JSON_UNQUOTE(JSON_EXTRACT(options, '$.final')) = 'true' THEN
    SET v_verdict = 'failed';
  END IF;
  IF JSON_TYPE(JSON_EXTRACT(options, '$.retry_after')) = 'STRING' THEN
    CALL {job}$duration('retry_after', JSON_UNQUOTE(JSON_EXTRACT(options, '$.retry_after')), v_after);
  ELSEIF JSON_EXTRACT(options, '$.retry_after') REGEXP '^[0-9]{1,9}$' THEN
    SET v_after = JSON_EXTRACT(options, '$.retry_after') * 1000000;
  ELSEIF JSON_TYPE(JSON_EXTRACT(options, '$.retry_after')) <> 'NULL' THEN
    CALL {job}$refuse(31002, 'options: retry_after is neither a number of whole seconds nor a text such as "5m"');
  END IF;
  IF v_verdict = 'failed' AND v_after IS NOT NULL THEN
    CALL {job}$refuse(31002, 'options: final and retry_after contradict each other');
  END IF;
  {inline begin}
  SET @hipq_worker = v_id, @hipq_id = id, @hipq_token = token, @hipq_verdict = v_verdict, @hipq_text = error, @hipq_after = v_after;
  SET @hipq_call = CONCAT('CALL `', v_table, '$settle`(@hipq_worker, @hipq_id, @hipq_token, @hipq_verdict, @hipq_text, @hipq_after, @hipq_state, @hipq_time)');
  PREPARE hipq FROM @hipq_call;
  EXECUTE hipq;
  DEALLOCATE PREPARE hipq;
  SET @hipq_text = NULL;
  IF v_own THEN
    COMMIT AND NO CHAIN NO RELEASE;
  END IF;
  SELECT @hipq_state AS state, CAST(@hipq_time AS DATETIME(6)) AS scheduled_run_time;
END
