-- Checks its arguments; QUEUE$grab (queue/grab.sql) claims.
CREATE PROCEDURE {self}(IN worker_secret {text}, IN queue {text}, IN job_types {text}, IN n BIGINT)
{traits}
BEGIN
  {inline head}
  DECLARE v_types, v_type {text};
  DECLARE v_i INT DEFAULT 0;
  {inline undo}
  {inline find_queue}
  IF job_types IS NULL THEN
    CALL {job}$refuse(31001, 'job_types is missing: one, or a JSON array');
  ELSEIF n NOT BETWEEN 1 AND 1000 THEN
    CALL {job}$refuse(31002, CONCAT('n ', n, ' is not from 1 to 1000'));
  END IF;
  SET v_types = IF(LEFT(job_types, 1) = '[', job_types, JSON_ARRAY(job_types));
  IF NOT JSON_VALID(v_types) OR JSON_LENGTH(v_types) NOT BETWEEN 1 AND 100 THEN
    CALL {job}$refuse(31002, 'job_types is not a JSON array of 1 to 100 job types');
  END IF;
  WHILE v_i < JSON_LENGTH(v_types) DO
    SET v_type = JSON_EXTRACT(v_types, CONCAT('$[', v_i, ']')), v_i = v_i + 1;
    IF JSON_TYPE(v_type) <> 'STRING' OR LENGTH(JSON_UNQUOTE(v_type)) NOT BETWEEN 1 AND 255 THEN
      CALL {job}$refuse(31002, 'job_types has an element that is not a text of 1 to 255 bytes');
    END IF;
  END WHILE;
  {inline begin}
  {inline check_worker}
  SET @hipq_worker = v_id, @hipq_types = v_types, @hipq_n = COALESCE(n, 1), @hipq_own = v_own,
    -- new each time, and not guessable
    @hipq_token = LEFT(CONCAT(LOWER(RIGHT(CONCAT('0000000', HEX(CONNECTION_ID())), 8)), SHA2(CONCAT(worker_secret, UUID()), 256)), 36);
  SET @hipq_call = CONCAT('CALL `', v_table, '$grab`(@hipq_worker, @hipq_token, @hipq_types, @hipq_n, @hipq_own)'); -- it commits, and returns the jobs
  {inline call}
END
