-- Gives back the jobs that a worker has grabbed but not started. It costs them no attempt.
CREATE PROCEDURE {self}(IN p_worker {id})
{traits}
BEGIN
  DECLARE v_now DATETIME(6) DEFAULT {now};
  UPDATE {jobs} FORCE INDEX ({jobs}$claim)
  SET status = IF(scheduled_run_time > v_now, 'scheduled', 'available'), wake_time = IF(scheduled_run_time > v_now, scheduled_run_time, NULL),
    worker_id = 'NONE', lock_token = 'NONE'
  WHERE status = 'locked' AND part IN ('NONE', 'stop') AND worker_id = p_worker;
END
