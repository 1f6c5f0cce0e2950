-- Finds the job with an id, or the live, else the newest final one of a type and key. A lock on a missing row would block new jobs.
CREATE PROCEDURE {self}(INOUT p_id BIGINT, IN p_type {text}, IN p_key {text})
{traits}
BEGIN
  DECLARE v_type, v_key VARBINARY(255);
  DECLARE v_there BIGINT;
  IF p_id IS NOT NULL THEN
    SELECT j.id INTO v_there FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id;
  ELSEIF p_type IS NULL OR p_key IS NULL THEN
    CALL {job}$refuse(31001, 'id is missing, or job_type and job_key');
  ELSEIF LENGTH(p_type) <= 255 AND LENGTH(p_key) <= 255 THEN
    SET v_type = p_type, v_key = p_key;
    SELECT MAX(j.id) INTO v_there FROM {jobs} j FORCE INDEX ({jobs}$live) WHERE j.job_type = v_type AND j.job_key = v_key AND j.live = 1;
    IF v_there IS NULL THEN
      SELECT MAX(j.id) INTO v_there FROM {jobs} j FORCE INDEX ({jobs}$live) WHERE j.job_type = v_type AND j.job_key = v_key AND j.live IS NULL;
    END IF;
  END IF;
  IF v_there IS NULL THEN
    CALL {job}$refuse(31007, IF(p_id IS NULL, CONCAT('no job of type ', LEFT(p_type, 40), ' with the key ', p_key), CONCAT('no job ', p_id)));
  END IF;
  SET p_id = v_there;
END
