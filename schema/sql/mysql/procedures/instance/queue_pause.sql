-- Pauses or resumes a queue. A pause waits for rounds that have their turn and haven't seen it: then no job starts.
CREATE PROCEDURE {self}(IN queue {text}, IN paused BOOLEAN)
{traits}
BEGIN
  {inline head}
  {inline undo}
  {inline find_queue}
  IF paused IS NULL THEN
    CALL {job}$refuse(31001, 'paused is missing');
  ELSEIF paused NOT IN (0, 1) THEN
    CALL {job}$refuse(31002, CONCAT('paused ', paused, ' is neither TRUE nor FALSE'));
  ELSEIF NOT EXISTS (SELECT 1 FROM {queues} q WHERE q.queue = CONVERT(queue USING ascii)) THEN
    CALL {job}$refuse(31003, CONCAT('unknown queue ', queue));
  END IF;
  {inline begin}
  UPDATE {queues} q SET q.paused = paused WHERE q.queue = CONVERT(queue USING ascii) AND q.paused <> paused;
  IF ROW_COUNT() > 0 THEN
    INSERT INTO {activity} (at, kind, state, queue, output) VALUES ({now}, 'queue', IF(paused, 'paused', 'resumed'), CONVERT(queue USING ascii), CONCAT('by ', USER()));
  END IF;
  IF paused THEN
    UPDATE {shards} s SET s.turn = s.turn % 1000000000 + 1 WHERE s.queue = CONVERT(queue USING ascii);
  END IF;
  {inline commit}
  IF paused AND {nodes} THEN -- a round on another node that hasn't seen the pause writes this row too: see Pause in queue/admin
    UPDATE {workers} w SET w.heartbeat = w.heartbeat + INTERVAL 1 MICROSECOND WHERE w.state = 'working';
  END IF;
  SELECT paused;
END
