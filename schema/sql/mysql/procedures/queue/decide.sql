-- Takes the retry decision by policy for failed jobs of one type in a shard, ten at most: those whose worker was lost, or whose answer did not
-- come. Types with a retry handler are left to that.
CREATE PROCEDURE {self}(IN p_place INT, IN p_type VARBINARY(64), IN p_worker {id}, IN p_now DATETIME(6))
{traits}
BEGIN
  DECLARE v_id, v_after BIGINT;
  DECLARE v_error, v_wish, v_policy {text};
  DECLARE v_stopping BOOLEAN;
  DECLARE v_state VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_time DATETIME(6);
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE undecided CURSOR FOR SELECT id, error, wish, stopping FROM {jobs} FORCE INDEX ({jobs}${pick})
    WHERE line = 'error' AND shard = p_place AND part = 'NONE' AND job_type = p_type AND state = 'error' AND attempt < 2147483647 LIMIT 10 {skip_locked};
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  -- SET with a SELECT would lock both rows under REPEATABLE READ, until the caller's transaction ends
  SELECT
    {inline policy}
    INTO v_policy
  FROM {queues} q LEFT JOIN {job_types} t ON t.queue = q.queue AND t.job_type = p_type WHERE q.queue = '{queue}';
  OPEN undecided;
  walk: LOOP
    FETCH undecided INTO v_id, v_error, v_wish, v_stopping;
    IF v_done OR JSON_EXTRACT(v_policy, '$.retry_handler') IS NOT NULL THEN
      LEAVE walk;
    END IF;
    CALL {job}$wish(v_wish, v_after);
    CALL {jobs}$conclude(v_id, p_worker, CASE WHEN v_stopping THEN 'cancelled' WHEN v_wish = 'never' THEN 'failed' ELSE 'retry' END,
      IF(v_stopping, 'cancelled', v_error), v_after, v_policy, p_now, v_state, v_time);
    SET v_done = FALSE;
  END LOOP walk;
  CLOSE undecided;
END
