IF v_state IS NULL THEN
  CALL {job}$refuse(31005, CONCAT('unknown worker ', v_id));
ELSEIF v_state <> 'working' THEN
  CALL {job}$refuse(31006, CONCAT('worker ', v_id, ' has ended, or was declared dead'));
END IF;
