CREATE VIEW {self} AS
SELECT j.id, j.job_type, j.job_key, NULLIF(j.job_data, 'NONE') AS job_data, m.state,
  {inline columns}
FROM (SELECT {word}'submitted' AS status, {word}'initial' AS state, 0 AS tried UNION ALL SELECT {word}'submitted', {word}'retry', 1
  UNION ALL SELECT {word}'available', {word}'initial', 0 UNION ALL SELECT {word}'available', {word}'retry', 1 UNION ALL SELECT {word}'scheduled', {word}'initial', 0
  UNION ALL SELECT {word}'scheduled', {word}'retry', 1 UNION ALL SELECT {word}'throttled', {word}'initial', 0 UNION ALL SELECT {word}'throttled', {word}'retry', 1
  UNION ALL SELECT {word}'locked', {word}'initial', 0 UNION ALL SELECT {word}'locked', {word}'retry', 1 UNION ALL SELECT {word}'running', {word}'running', NULL
  UNION ALL SELECT {word}'answered', {word}'running', NULL UNION ALL SELECT {word}'awaiting', {word}'running', NULL UNION ALL SELECT {word}'deciding', {word}'error', NULL
  UNION ALL SELECT {word}'undecided', {word}'error', NULL UNION ALL SELECT {word}'finished', {word}'final', NULL UNION ALL SELECT {word}'failed', {word}'final', NULL
  UNION ALL SELECT {word}'closed', {word}'final', NULL) AS m
{join} {jobs} AS j {all indexes} ON j.status = m.status AND (m.tried IS NULL OR m.tried = (j.attempt > 0)) WHERE {mark}
