CREATE PROCEDURE {self}(IN worker_id {text}, IN queue {text}, IN id BIGINT, IN token {text}, IN percent DOUBLE, IN note {text})
{traits}
BEGIN
  DECLARE v_own BOOLEAN;
  DECLARE v_id {id};
  DECLARE v_table VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    CALL {job}$undo(v_own);
    RESIGNAL;
  END;
  {inline find_queue}
  IF id IS NULL THEN
    CALL {job}$refuse(31001, 'id is missing');
  ELSEIF percent IS NULL THEN
    CALL {job}$refuse(31001, 'percent is missing');
  ELSEIF percent NOT BETWEEN 0 AND 100 THEN
    CALL {job}$refuse(31002, 'percent is not from 0 to 100');
  END IF;
  {inline begin}
  {inline check_worker}
  SET @hipq_worker = v_id, @hipq_id = id, @hipq_token = token, @hipq_n = FLOOR(percent), @hipq_text = LEFT(note, 255);
  SET @hipq_call = CONCAT('CALL `', v_table, '$progress`(@hipq_worker, @hipq_id, @hipq_token, @hipq_n, @hipq_text, @hipq_written)');
  PREPARE hipq FROM @hipq_call;
  EXECUTE hipq;
  DEALLOCATE PREPARE hipq;
  IF v_own THEN
    COMMIT AND NO CHAIN NO RELEASE;
  END IF;
  SELECT @hipq_written AS written;
END
