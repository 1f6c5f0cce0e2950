-- Counts jobs as hipq monitor does: due, held, and locked by dead workers. SELECT INTO reads without locks; SET with a
-- SELECT would take some under REPEATABLE READ.
CREATE PROCEDURE {self}(IN p_type VARBINARY(255), OUT p_n BIGINT)
{traits}
BEGIN
  DECLARE v_now DATETIME(6) DEFAULT {now};
  SELECT (SELECT COUNT(*) FROM {jobs} FORCE INDEX ({jobs}$claim)
      WHERE status IN ('available', 'throttled', 'submitted') AND scheduled_run_time <= v_now AND (p_type IS NULL OR job_type = p_type))
    + (SELECT COUNT(*) FROM {jobs} FORCE INDEX ({jobs}$wake)
      WHERE status = 'scheduled' AND wake_time <= v_now AND (p_type IS NULL OR job_type = p_type))
    + (SELECT COUNT(*) FROM {jobs} j FORCE INDEX ({jobs}$claim)
      LEFT JOIN {workers} w FORCE INDEX (PRIMARY) ON w.id = j.worker_id AND w.state = 'working' AND w.lock_until > v_now
      WHERE j.status IN ('locked', 'running', 'answered', 'deciding') AND w.id IS NULL AND (p_type IS NULL OR j.job_type = p_type))
  INTO p_n;
END
