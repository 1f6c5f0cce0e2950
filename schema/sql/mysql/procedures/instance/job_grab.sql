CREATE PROCEDURE {self}(IN worker_id {text}, IN queue {text}, IN job_types {text}, IN n BIGINT)
{traits}
BEGIN
  DECLARE v_own BOOLEAN;
  DECLARE v_id {id};
  DECLARE v_table VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE v_types {text};
  DECLARE v_i INT DEFAULT 0;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    CALL {job}$undo(v_own);
    RESIGNAL;
  END;
  CALL {job}$find_queue(queue, v_table);
  IF job_types IS NULL THEN
    CALL {job}$refuse(31001, 'job_types is missing: one, or a JSON array');
  ELSEIF n NOT BETWEEN 1 AND 1000 THEN
    CALL {job}$refuse(31002, CONCAT('n ', n, ' is not from 1 to 1000'));
  END IF;
  SET v_types = JSON_ARRAY(job_types);
  IF LEFT(job_types, 1) = '[' THEN
    SET v_types = job_types;
    IF NOT JSON_VALID(v_types) OR JSON_LENGTH(v_types) NOT BETWEEN 1 AND 100 THEN
      CALL {job}$refuse(31002, 'job_types is not a JSON array of 1 to 100 job types');
    END IF;
  END IF;
  WHILE v_i < JSON_LENGTH(v_types) DO
    IF JSON_TYPE(JSON_EXTRACT(v_types, CONCAT('$[', v_i, ']'))) <> 'STRING'
      OR LENGTH(JSON_UNQUOTE(JSON_EXTRACT(v_types, CONCAT('$[', v_i, ']')))) NOT BETWEEN 1 AND 64 THEN
      CALL {job}$refuse(31002, 'job_types has what is not a text of 1 to 64 bytes');
    END IF;
    SET v_i = v_i + 1;
  END WHILE;
  CALL {job}$begin(v_own);
  CALL {job}$find_worker(worker_id, v_id);
  SET @hipq_worker = v_id, @hipq_types = v_types, @hipq_n = COALESCE(n, 1), @hipq_own = v_own;
  SET @hipq_call = CONCAT('CALL `', v_table, '$grab`(@hipq_worker, @hipq_types, @hipq_n, @hipq_own, @hipq_token, @hipq_ids)');
  PREPARE hipq FROM @hipq_call;
  EXECUTE hipq;
  IF v_own THEN
    COMMIT AND NO CHAIN NO RELEASE;
  END IF;
  SET @hipq_call = CONCAT('SELECT id, CONVERT(job_type USING utf8mb4) AS job_type, CONVERT(job_key USING utf8mb4) AS job_key,',
    ' NULLIF(job_data, ''NONE'') AS job_data, attempt, timeout, lock_token AS token FROM `', v_table, '` FORCE INDEX (PRIMARY)',
    ' WHERE id IN (', @hipq_ids, ') AND line = ''locked'' AND lock_token = CONVERT(@hipq_token USING ascii)',
    ' ORDER BY run_rank, scheduled_run_time, id');
  PREPARE hipq FROM @hipq_call;
  EXECUTE hipq;
  DEALLOCATE PREPARE hipq;
END
