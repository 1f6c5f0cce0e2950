-- What the locked and running jobs of a shard weigh, all or those of a group, without those that are only being decided about. In the caller's
-- own transaction the rows are read as they are now, whatever it has seen before: they stay locked until it ends.
CREATE PROCEDURE {self}(IN p_own BOOLEAN, IN p_place INT, IN p_group VARBINARY(255), OUT p_used BIGINT)
{traits}
BEGIN
  IF p_own THEN
    SELECT COALESCE(SUM(j.throttle_factor), 0) INTO p_used FROM {jobs} j FORCE INDEX ({jobs}${pick})
    WHERE j.line IN ('locked', 'waiting') AND j.shard = p_place AND (j.state <> 'error' OR j.answered = 1) AND (p_group IS NULL OR j.throttle_group = p_group);
  ELSE
    SELECT COALESCE(SUM(j.throttle_factor), 0) INTO p_used FROM {jobs} j FORCE INDEX ({jobs}${pick})
    WHERE j.line IN ('locked', 'waiting') AND j.shard = p_place AND (j.state <> 'error' OR j.answered = 1) AND (p_group IS NULL OR j.throttle_group = p_group)
    LOCK IN SHARE MODE;
  END IF;
END
