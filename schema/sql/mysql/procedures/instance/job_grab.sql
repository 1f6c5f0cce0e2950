CREATE PROCEDURE {self}(IN worker_id {text}, IN queue {text}, IN job_types {text}, IN n BIGINT)
{traits}
BEGIN
  DECLARE v_own BOOLEAN;
  DECLARE v_id {id};
  DECLARE v_table VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE v_type {text} DEFAULT job_types;
  DECLARE v_i, v_n INT DEFAULT 0;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    CALL {job}$undo(v_own);
    RESIGNAL;
  END;
  {inline find_queue}
  IF job_types IS NULL THEN
    CALL {job}$refuse(31001, 'job_types is missing: one, or a JSON array');
  ELSEIF n NOT BETWEEN 1 AND 1000 THEN
    CALL {job}$refuse(31002, CONCAT('n ', n, ' is not from 1 to 1000'));
  END IF;
  IF LEFT(job_types, 1) = '[' THEN
    IF NOT JSON_VALID(job_types) OR JSON_LENGTH(job_types) NOT BETWEEN 1 AND 100 THEN
      CALL {job}$refuse(31002, 'job_types is not a JSON array of 1 to 100 job types');
    END IF;
    SET v_n = JSON_LENGTH(job_types);
    WHILE v_i < v_n DO
      SET v_type = JSON_UNQUOTE(JSON_EXTRACT(job_types, CONCAT('$[', v_i, ']')));
      IF JSON_TYPE(JSON_EXTRACT(job_types, CONCAT('$[', v_i, ']'))) <> 'STRING' OR LENGTH(v_type) NOT BETWEEN 1 AND 64 THEN
        CALL {job}$refuse(31002, 'job_types has what is not a text of 1 to 64 bytes');
      END IF;
      SET v_i = v_i + 1;
    END WHILE;
  ELSEIF LENGTH(v_type) NOT BETWEEN 1 AND 64 THEN
    CALL {job}$refuse(31002, 'job_types has what is not a text of 1 to 64 bytes');
  END IF;
  {inline begin}
  {inline check_worker}
  SET @hipq_worker = v_id, @hipq_type = v_type, @hipq_types = IF(v_n > 1, job_types, NULL), @hipq_n = COALESCE(n, 1),
    @hipq_own = v_own;
  -- it commits, and answers
  SET @hipq_call = CONCAT('CALL `', v_table, '$grab`(@hipq_worker, @hipq_type, @hipq_types, @hipq_n, @hipq_own)');
  PREPARE hipq FROM @hipq_call;
  EXECUTE hipq;
  DEALLOCATE PREPARE hipq;
END
