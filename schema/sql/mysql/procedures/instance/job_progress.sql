CREATE PROCEDURE {self}(IN worker_secret {text}, IN queue {text}, IN id BIGINT, IN token {text}, IN percent DOUBLE, IN note {text})
{traits}
BEGIN
  {inline head}
  {inline undo}
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
  {inline call}
  {inline commit}
  SELECT @hipq_written AS written;
END
