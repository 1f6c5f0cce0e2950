-- Saves the progress that a worker reports. It waits for no other transaction: p_written is false if one held the row,
-- or if an answer from outside has come.
CREATE PROCEDURE {self}(IN p_worker {id}, IN p_id BIGINT, IN p_token {text}, IN p_percent INT, IN p_note {text}, OUT p_written BOOLEAN)
{traits}
BEGIN
  DECLARE v_state, v_status VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_holder, v_lock, v_attempt_token VARBINARY(36);
  DECLARE v_there BOOLEAN;
  SELECT j.state, j.status, j.worker_id, j.lock_token, j.attempt_token INTO v_state, v_status, v_holder, v_lock, v_attempt_token
  FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id {skip_locked};
  IF v_state IS NULL THEN
    SELECT TRUE INTO v_there FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = p_id;
  END IF;
  SET p_written = FALSE;
  IF v_there IS NULL THEN
    CALL {job}$check_holder(p_worker, p_id, p_token, FALSE, v_state, v_status, v_holder, v_lock, v_attempt_token);
    IF v_status = 'running' THEN
      UPDATE {jobs} FORCE INDEX (PRIMARY) SET progress = p_percent, progress_note = COALESCE(NULLIF(p_note, ''), 'NONE'),
        progress_attempt = attempt, progress_time = {now} WHERE id = p_id;
      SET p_written = TRUE;
    END IF;
  END IF;
END
