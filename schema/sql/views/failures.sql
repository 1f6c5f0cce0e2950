CREATE VIEW {self} AS
SELECT j.id, j.job_type, j.job_key, NULLIF(j.job_data, 'NONE') AS job_data, j.state,
  {inline columns}
FROM {jobs} AS j WHERE j.status = 'failed' AND {mark}
