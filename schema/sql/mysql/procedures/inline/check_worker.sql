-- Checks what may be the id of a worker, as far as it matters to whoever looks for one.
IF worker_id IS NULL THEN
  CALL {job}$refuse(31001, 'worker_id is missing');
ELSEIF CHAR_LENGTH(worker_id) NOT BETWEEN 1 AND 36 OR worker_id = 'NONE' THEN
  CALL {job}$refuse(31002, 'worker_id is not 1 to 36 letters, digits, dots, colons, dashes and underscores');
END IF;
SET v_id = CONVERT(worker_id USING ascii);
