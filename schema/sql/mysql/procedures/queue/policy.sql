-- The retry policy of a job type, with what else settles its jobs: the queue's for a type that no config names.
CREATE PROCEDURE {self}(IN p_type VARBINARY(64), OUT p_policy {text})
{traits}
BEGIN
  SET p_policy = (SELECT t.settings FROM {job_types} t WHERE t.queue = '{queue}' AND t.job_type = p_type);
  IF p_policy IS NULL OR p_policy = 'NONE' OR NOT JSON_VALID(p_policy) THEN
    SET p_policy = COALESCE(
      (SELECT JSON_EXTRACT(NULLIF(q.settings, 'NONE'), '$.default_retry') FROM {queues} q WHERE q.queue = '{queue}'), '{default_policy}');
  END IF;
END
