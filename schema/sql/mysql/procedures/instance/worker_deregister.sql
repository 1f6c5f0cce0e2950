-- Ends a worker. In each queue, grabbed jobs that have not started go back. The next tick of hipq work rescues running
-- jobs, as if the worker had died.
CREATE PROCEDURE {self}(IN worker_secret {text})
{traits}
BEGIN
  {inline head}
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE v_now DATETIME(6);
  DECLARE v_host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE v_pid BIGINT;
  DECLARE v_state VARCHAR(16) CHARACTER SET ascii DEFAULT NULL;
  DECLARE tables CURSOR FOR SELECT o.table_name FROM {owners} o JOIN {queues} q ON q.queue = o.queue
    WHERE o.instance = '{instance}' AND o.queue <> 'NONE' AND o.version > 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  {inline undo}
  {inline check_worker}
  {inline begin}
  SELECT state INTO v_state FROM {workers} WHERE id = v_id; -- locking a missing row would block new workers
  {inline at_work}
  SELECT state, host, pid INTO v_state, v_host, v_pid FROM {workers} WHERE id = v_id FOR UPDATE;
  {inline at_work}
  SET @hipq_worker = v_id, v_done = FALSE;
  OPEN tables;
  give: LOOP
    FETCH tables INTO v_table;
    IF v_done THEN
      LEAVE give;
    END IF;
    SET @hipq_call = CONCAT('CALL `', v_table, '$giveback`(@hipq_worker)');
    BEGIN
      DECLARE EXIT HANDLER FOR 1305 BEGIN END; -- a queue without procedures has no grabbed jobs
      {inline call}
    END;
    SET v_done = FALSE;
  END LOOP give;
  CLOSE tables;
  SET v_now = {now};
  UPDATE {workers} SET state = 'finished', slots = 0, end_time = v_now WHERE id = v_id;
  INSERT INTO {activity} (at, kind, state, worker_id, host, pid) VALUES (v_now, 'worker', 'finished', v_id, v_host, v_pid);
  {inline commit}
END
