IF p_state IS NULL THEN
  CALL {job}$refuse(31007, CONCAT('no job ', p_id));
ELSEIF p_state = 'final' THEN
  CALL {job}$refuse(31011, CONCAT('job ', p_id, ' is final'));
ELSEIF p_state IN ('running', 'error') AND NOT p_running THEN
  CALL {job}$refuse(31019, CONCAT('job ', p_id, ' has started: it is ', p_state));
END IF;
