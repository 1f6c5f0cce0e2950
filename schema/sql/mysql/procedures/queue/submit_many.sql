-- Adds the jobs of a JSON array. p_added is an array of [id, duplicate]. A refusal names the job.
CREATE PROCEDURE {self}(IN p_jobs {text}, IN p_own BOOLEAN, OUT p_added {text})
{traits}
BEGIN
  DECLARE v_n, v_id, v_duplicate BIGINT;
  DECLARE v_job, v_type, v_key, v_data, v_options {text};
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE v_message VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE list CURSOR FOR SELECT n, job FROM JSON_TABLE(p_jobs, '$[*]' COLUMNS (n FOR ORDINALITY, job JSON PATH '$')) l;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  DECLARE EXIT HANDLER FOR SQLSTATE '45000' BEGIN
    GET DIAGNOSTICS CONDITION 1 v_message = MESSAGE_TEXT;
    SET v_message = LEFT(CONCAT('job ', v_n, ': ', v_message), 128);
    RESIGNAL SET MESSAGE_TEXT = v_message;
  END;
  SET p_added = '[]';
  OPEN list;
  walk: LOOP
    FETCH list INTO v_n, v_job;
    IF v_done THEN
      LEAVE walk;
    END IF;
    CALL {job}$options(v_job, 'job_type, job_key, job_data, options');
    SET v_type = JSON_EXTRACT(v_job, '$.job_type'), v_key = JSON_EXTRACT(v_job, '$.job_key'), v_data = JSON_EXTRACT(v_job, '$.job_data'),
      v_options = JSON_EXTRACT(v_job, '$.options');
    IF JSON_TYPE(v_type) NOT IN ('STRING', 'NULL') OR JSON_TYPE(v_key) NOT IN ('STRING', 'NULL') THEN
      CALL {job}$refuse(31002, 'job_type or job_key is not a text');
    END IF;
    CALL {jobs}$submit(IF(JSON_TYPE(v_type) = 'NULL', NULL, JSON_UNQUOTE(v_type)), IF(JSON_TYPE(v_key) = 'NULL', NULL, JSON_UNQUOTE(v_key)),
      CASE JSON_TYPE(v_data) WHEN 'NULL' THEN NULL WHEN 'STRING' THEN JSON_UNQUOTE(v_data) ELSE v_data END,
      IF(JSON_TYPE(v_options) = 'NULL', NULL, v_options), NULL, p_own, v_id, v_duplicate);
    SET v_done = FALSE, p_added = JSON_ARRAY_APPEND(p_added, '$', JSON_ARRAY(v_id + 0, v_duplicate + 0));
  END LOOP walk;
  CLOSE list;
END
