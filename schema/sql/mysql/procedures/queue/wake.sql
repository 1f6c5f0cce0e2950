-- Makes up to 100 scheduled jobs due, the earliest first, so that a worker needn't wait for a tick of hipq work.
CREATE PROCEDURE {self}(IN p_now DATETIME(6))
{traits}
BEGIN
  DECLARE v_id BIGINT;
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE waking CURSOR FOR SELECT id FROM {jobs} FORCE INDEX ({jobs}$wake)
    WHERE wake_time <= p_now AND status = 'scheduled' ORDER BY wake_time LIMIT 100 {skip_locked};
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  OPEN waking;
  walk: LOOP
    FETCH waking INTO v_id;
    IF v_done THEN
      LEAVE walk;
    END IF;
    UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = 'available', wake_time = NULL WHERE id = v_id AND status = 'scheduled';
  END LOOP walk;
  CLOSE waking;
END
