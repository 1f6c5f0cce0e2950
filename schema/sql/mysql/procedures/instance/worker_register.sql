CREATE PROCEDURE {self}(IN worker_secret {text}, IN host {text}, IN pid BIGINT, IN lock_seconds BIGINT)
{traits}
BEGIN
  {inline head}
  DECLARE v_now, v_until DATETIME(6);
  DECLARE v_host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE EXIT HANDLER FOR 1062 BEGIN
    CALL {job}$undo(v_own);
    CALL {job}$refuse(31014, CONCAT('there is or was a worker ', v_id));
  END;
  {inline undo}
  {inline check_worker}
  IF CHAR_LENGTH(host) > 255 OR host = '' THEN
    CALL {job}$refuse(31002, 'host is not 1 to 255 characters long');
  ELSEIF pid NOT BETWEEN 0 AND 2147483647 THEN
    CALL {job}$refuse(31002, CONCAT('pid ', pid, ' is not from 0 to 2147483647'));
  ELSEIF lock_seconds NOT BETWEEN 5 AND 86400 THEN
    CALL {job}$refuse(31002, CONCAT('lock_seconds ', lock_seconds, ' is not from 5 to 86400'));
  END IF;
  SET v_host = COALESCE(host, SUBSTRING_INDEX(USER(), '@', -1));
  {inline begin}
  SET v_now = {now}, v_until = v_now + INTERVAL COALESCE(lock_seconds, 60) SECOND;
  INSERT INTO {workers} (id, host, pid, state, slots, by_sql, by_hand, start_time, heartbeat, lock_until)
  VALUES (v_id, v_host, COALESCE(pid, 0), 'working', 0, 1, 1, v_now, v_now, v_until);
  INSERT INTO {activity} (at, kind, state, worker_id, host, pid) VALUES (v_now, 'worker', 'starting', v_id, v_host, COALESCE(pid, 0));
  {inline commit}
  SELECT v_id AS worker_id, v_until AS lock_until;
END
