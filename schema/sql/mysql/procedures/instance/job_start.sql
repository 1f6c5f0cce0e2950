-- If the queue is paused, needs hipq work, or the job's windows are closed, the job goes back. Only this refusal
-- changes something.
CREATE PROCEDURE {self}(IN worker_secret {text}, IN queue {text}, IN id BIGINT, IN token {text})
{traits}
BEGIN
  DECLARE v_refusal VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE v_attempt BIGINT;
  body: BEGIN
    {inline head}
    {inline undo}
    {inline find_queue}
    IF id IS NULL THEN
      CALL {job}$refuse(31001, 'id is missing');
    END IF;
    {inline begin}
    {inline check_worker}
    SET @hipq_worker = v_id, @hipq_id = id, @hipq_token = token;
    SET @hipq_call = CONCAT('CALL `', v_table, '$start`(@hipq_worker, @hipq_id, @hipq_token, @hipq_attempt, @hipq_refusal)');
    {inline call}
    SET v_attempt = @hipq_attempt, v_refusal = @hipq_refusal;
    {inline commit}
  END body;
  IF v_refusal IS NOT NULL THEN
    CALL {job}$refuse(31013, v_refusal);
  END IF;
  SELECT v_attempt AS attempt;
END
