-- The lock is renewed for its original length: from the last heartbeat to lock_until.
CREATE PROCEDURE {self}(IN worker_secret {text})
{traits}
BEGIN
  {inline head}
  DECLARE v_now, v_until DATETIME(6);
  DECLARE v_state VARCHAR(16) CHARACTER SET ascii DEFAULT NULL;
  {inline undo}
  {inline check_worker}
  {inline begin}
  SET v_now = {now};
  SELECT state INTO v_state FROM {workers} WHERE id = v_id; -- locking a missing row would block new workers
  {inline at_work}
  SELECT state, v_now + INTERVAL TIMESTAMPDIFF(MICROSECOND, heartbeat, lock_until) MICROSECOND INTO v_state, v_until
  FROM {workers} WHERE id = v_id FOR UPDATE;
  {inline at_work}
  UPDATE {workers} SET heartbeat = v_now, lock_until = v_until WHERE id = v_id;
  {inline commit}
  SELECT v_until AS lock_until;
END
