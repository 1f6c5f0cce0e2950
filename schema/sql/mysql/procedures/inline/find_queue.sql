-- Finds a queue's table among those of hipq init, so the caller's text never becomes part of a statement. The
-- procedures that read the queue's row check that it is registered: a join here would cost more than all else.
IF queue IS NULL THEN
  CALL {job}$refuse(31001, 'queue is missing');
END IF;
SELECT o.table_name INTO v_table FROM {owners} o
WHERE o.instance = '{instance}' AND o.queue = CONVERT(LEFT(queue, 49) USING ascii) AND o.queue <> 'NONE' AND o.version > 0
  AND LENGTH(o.queue) = LENGTH(queue); -- else trailing spaces wouldn't count
IF v_table IS NULL THEN
  CALL {job}$refuse(31003, CONCAT('unknown queue ', queue));
END IF;
