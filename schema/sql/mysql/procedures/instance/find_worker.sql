-- Makes sure that a worker is known, at work, and has its lock.
CREATE PROCEDURE {self}(IN p_worker {text}, OUT p_id {id})
{traits}
BEGIN
  DECLARE v_state VARCHAR(16) CHARACTER SET ascii DEFAULT NULL;
  DECLARE v_lock_until DATETIME(6);
  CALL {job}$check_worker(p_worker, p_id);
  SELECT state, lock_until INTO v_state, v_lock_until FROM {workers} WHERE id = p_id;
  IF v_state IS NULL THEN
    CALL {job}$refuse(31005, CONCAT('unknown worker ', p_id));
  ELSEIF v_state <> 'working' THEN
    CALL {job}$refuse(31006, CONCAT('worker ', p_id, ' has ended, or was declared dead'));
  ELSEIF v_lock_until <= UTC_TIMESTAMP(6) THEN
    CALL {job}$refuse(31006, CONCAT('worker ', p_id, ' has lost its lock: it sent no heartbeat in time'));
  END IF;
END
