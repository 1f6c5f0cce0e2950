-- a call that fails has done nothing
DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
  CALL {job}$undo(v_own);
  RESIGNAL;
END;
