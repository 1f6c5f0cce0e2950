-- Finds the table of a queue among those that hipq init has made: the caller's word never becomes a part of a statement.
CREATE PROCEDURE {self}(IN p_queue {text}, OUT p_table VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin)
{traits}
BEGIN
  SET p_table = NULL;
  IF p_queue IS NULL THEN
    CALL {job}$refuse(31001, 'queue is missing');
  END IF;
  SELECT o.table_name INTO p_table FROM {owners} o JOIN {queues} q ON q.queue = o.queue
  WHERE o.instance = '{instance}' AND o.queue = CONVERT(LEFT(p_queue, 49) USING ascii) AND o.queue <> 'NONE' AND o.version > 0
    AND LENGTH(o.queue) = LENGTH(p_queue); -- else spaces behind it wouldn't count
  IF p_table IS NULL THEN
    CALL {job}$refuse(31003, CONCAT('unknown queue ', p_queue));
  END IF;
END
