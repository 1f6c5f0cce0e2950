-- Finds the table of a queue among those that hipq init has made: the caller's word never becomes a part of a statement. Whether
-- the queue is registered too, those see who read its row: a join would cost more than all else here.
IF queue IS NULL THEN
  CALL {job}$refuse(31001, 'queue is missing');
END IF;
SELECT o.table_name INTO v_table FROM {owners} o
WHERE o.instance = '{instance}' AND o.queue = CONVERT(LEFT(queue, 49) USING ascii) AND o.queue <> 'NONE' AND o.version > 0
  AND LENGTH(o.queue) = LENGTH(queue); -- else spaces behind it wouldn't count
IF v_table IS NULL THEN
  CALL {job}$refuse(31003, CONCAT('unknown queue ', queue));
END IF;
