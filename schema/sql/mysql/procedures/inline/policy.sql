-- a lock here would block the worker's heartbeat. A type that no config names has the queue's retry policy, and no other handlers
SELECT q.throttle_limit, q.keep_finished, q.keep_failed, JSON_EXTRACT(NULLIF(q.settings, 'NONE'), '$.zone'), COALESCE(w.host, 'NONE'), COALESCE(w.pid, 0),
    IF(JSON_VALID(t.settings), t.settings, COALESCE(JSON_EXTRACT(NULLIF(q.settings, 'NONE'), '$.default_retry'), '{default_policy}'))
  INTO v_limit, v_keep_finished, v_keep_failed, v_zone, v_host, v_pid, v_policy
FROM {queues} q LEFT JOIN {job_types} t ON t.queue = q.queue AND t.job_type IN (v_type, '*') LEFT JOIN {workers} w ON w.id = p_worker
WHERE q.queue = '{queue}' ORDER BY t.job_type = '*' LIMIT 1;
