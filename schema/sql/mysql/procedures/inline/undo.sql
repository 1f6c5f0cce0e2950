-- a failed call changes nothing
DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
  CALL {job}$undo(v_own);
  RESIGNAL;
END;
