j.status, j.attempt, j.priority, j.timeout, j.throttle_factor, j.scheduled_run_time, j.create_time,
  CASE WHEN j.attempt > 0 THEN j.start_time END AS start_time, j.update_time, NULLIF(j.worker_id, 'NONE') AS worker_id,
  NULLIF(j.error, 'NONE') AS error, NULLIF(j.result, 'NONE') AS result,
  CASE WHEN j.attempt > 0 AND j.progress_attempt = j.attempt THEN j.progress END AS progress,
  CASE WHEN j.attempt > 0 AND j.progress_attempt = j.attempt THEN NULLIF(j.progress_note, 'NONE') END AS progress_note, j.retry_of, j.retried_as
