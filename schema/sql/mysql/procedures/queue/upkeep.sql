-- Does what can't wait for a tick of hipq work, whatever shard it is about: makes jobs due whose time has come, and takes in rows of
-- plain SQL of some types.
CREATE PROCEDURE {self}(IN p_types {text}, IN p_worker {id}, IN p_division INT, IN p_settings {text}, IN p_now DATETIME(6))
{traits}
BEGIN
  DECLARE v_type VARBINARY(64);
  DECLARE v_i INT DEFAULT 0;
  DECLARE v_new BOOLEAN;
  IF EXISTS (SELECT 1 FROM {jobs} FORCE INDEX ({jobs}$wake) WHERE wake_time <= p_now AND line = 'later') THEN
    CALL {jobs}$wake(p_now);
  END IF;
  WHILE v_i < JSON_LENGTH(p_types) DO
    SET v_type = JSON_UNQUOTE(JSON_EXTRACT(p_types, CONCAT('$[', v_i, ']'))), v_i = v_i + 1;
    SELECT EXISTS (SELECT 1 FROM {jobs} FORCE INDEX ({jobs}${pick}) WHERE line = 'new' AND shard = 1000 AND part = 'NONE' AND job_type = v_type)
      INTO v_new;
    IF v_new THEN
      CALL {jobs}$take_in(v_type, p_division, p_settings, p_worker, p_now);
    END IF;
  END WHILE;
END
