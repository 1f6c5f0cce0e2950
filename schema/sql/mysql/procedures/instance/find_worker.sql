-- Refuses a worker that may not grab or start: it must be registered, working, and hold its lock.
CREATE PROCEDURE {self}(IN p_worker {id})
{traits}
BEGIN
  DECLARE v_state VARCHAR(16) CHARACTER SET ascii DEFAULT NULL;
  DECLARE v_lock_until DATETIME(6);
  SELECT w.state, w.lock_until INTO v_state, v_lock_until FROM {workers} w WHERE w.id = p_worker;
  IF v_state IS NULL THEN
    CALL {job}$refuse(31005, CONCAT('unknown worker ', p_worker));
  ELSEIF v_state <> 'working' THEN
    CALL {job}$refuse(31006, CONCAT('worker ', p_worker, ' has ended, or was declared dead'));
  ELSEIF v_lock_until <= {now} THEN
    CALL {job}$refuse(31006, CONCAT('worker ', p_worker, ' has lost its lock: it sent no heartbeat in time'));
  END IF;
END
