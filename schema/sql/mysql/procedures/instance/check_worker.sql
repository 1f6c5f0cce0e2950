-- Checks what may be the id of a worker, as far as it matters to whoever looks for one.
CREATE PROCEDURE {self}(IN p_worker {text}, OUT p_id {id})
{traits}
BEGIN
  SET p_id = NULL;
  IF p_worker IS NULL THEN
    CALL {job}$refuse(31001, 'worker_id is missing');
  ELSEIF CHAR_LENGTH(p_worker) NOT BETWEEN 1 AND 36 OR p_worker = 'NONE' THEN
    CALL {job}$refuse(31002, 'worker_id is not 1 to 36 letters, digits, dots, colons, dashes and underscores');
  END IF;
  SET p_id = CONVERT(p_worker USING ascii);
END
