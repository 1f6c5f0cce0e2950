CREATE PROCEDURE {self}(IN queue {text}, IN jobs {text})
{traits}
BEGIN
  {inline head}
  {inline undo}
  {inline find_queue}
  IF jobs IS NULL THEN
    CALL {job}$refuse(31001, 'jobs is missing');
  ELSEIF NOT JSON_VALID(jobs) OR JSON_TYPE(jobs) <> 'ARRAY' OR JSON_LENGTH(jobs) NOT BETWEEN 1 AND 1000 THEN
    CALL {job}$refuse(31002, 'jobs is not a JSON array of 1 to 1000 objects');
  END IF;
  {inline begin}
  SET @hipq_data = jobs, @hipq_own = v_own;
  SET @hipq_call = CONCAT('CALL `', v_table, '$submit_many`(@hipq_data, @hipq_own, @hipq_added)');
  {inline call}
  SET @hipq_data = NULL;
  {inline commit}
  SELECT a.n, a.id, a.duplicate
  FROM JSON_TABLE(@hipq_added, '$[*]' COLUMNS (n FOR ORDINALITY, id BIGINT PATH '$[0]', duplicate TINYINT PATH '$[1]')) a ORDER BY a.n;
END
