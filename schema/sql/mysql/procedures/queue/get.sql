-- Returns a job as the view {jobs}$jobs does, with texts for its bytes.
CREATE PROCEDURE {self}(IN p_id BIGINT, IN p_type {text}, IN p_key {text})
{traits}
BEGIN
  CALL {jobs}$find(p_id, p_type, p_key);
  SELECT j.id, CONVERT(j.job_type USING utf8mb4) AS job_type, CONVERT(j.job_key USING utf8mb4) AS job_key, NULLIF(j.job_data, 'NONE') AS job_data, j.state,
    {inline columns}
  FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id;
END
