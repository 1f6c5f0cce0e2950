-- Locks due jobs of some types (a JSON array) for a worker, in order, as many as it wants and the limit allows. It is one
-- pass. The index has one range of each type's jobs with a weight, one of those without, and one of those first in line for the
-- limit. The first of the ranges' next jobs is locked by id, unless another transaction holds it. The procedure commits its own
-- transaction, and returns the jobs.
CREATE PROCEDURE {self}(IN p_worker {id}, IN p_token {id}, IN p_types {text}, IN p_n BIGINT, IN p_own BOOLEAN)
{traits}
BEGIN
  DECLARE v_heads {text} DEFAULT '{}'; -- the next job of each range: [part, type, id]
  DECLARE v_ids {text} DEFAULT '[]';
  DECLARE v_zone, v_windows, v_range, v_head {text};
  DECLARE v_limit, v_used, v_factor BIGINT DEFAULT 0;
  DECLARE v_ranges, v_seen, v_taken INT DEFAULT 0;
  DECLARE v_open, v_unserved, v_works, v_full, v_there BOOLEAN DEFAULT FALSE;
  DECLARE v_part VARCHAR(4) CHARACTER SET ascii;
  DECLARE v_type VARBINARY(255);
  DECLARE v_now, v_opening, v_asked DATETIME(6);
  DECLARE v_run_rank BIGINT; DECLARE v_scheduled_run_time DATETIME(6); DECLARE v_id BIGINT;

  SET v_limit = NULL;
  SELECT JSON_EXTRACT(NULLIF(q.settings, 'NONE'), '$.zone'), q.paused = 0, q.throttle_limit, w.state = 'working' AND w.lock_until > {now},
    {inline unserved}
    INTO v_zone, v_open, v_limit, v_works, v_unserved
  FROM {queues} q LEFT JOIN {workers} w ON w.id = p_worker WHERE q.queue = '{queue}';
  IF v_limit IS NULL THEN
    CALL {job}$refuse(31003, 'unknown queue {queue}');
  ELSEIF NOT COALESCE(v_works, FALSE) THEN
    CALL {job}$find_worker(p_worker);
  ELSEIF v_unserved THEN
    CALL {job}$refuse(31016, 'queue {queue} has throttle_groups, a rate or shards: run its jobs by hipq work');
  END IF;
  -- a sum doesn't see rows that others are about to lock, so with a limit all grabs take turns at the shard's row
  IF v_open AND v_limit > 0 THEN
    UPDATE {shards} s SET s.turn = s.turn % 1000000000 + 1 WHERE s.queue = '{queue}' AND s.shard = 1000;
    SET v_open = ROW_COUNT() = 1;
    IF p_own THEN
      SELECT COALESCE(SUM(j.throttle_factor), 0) INTO v_used FROM {jobs} j FORCE INDEX ({jobs}$claim) WHERE j.shard = 1000 AND {counts};
    ELSE -- reads the current rows, not the snapshot of the caller's transaction
      SELECT COALESCE(SUM(j.throttle_factor), 0) INTO v_used FROM {jobs} j FORCE INDEX ({jobs}$claim) WHERE j.shard = 1000 AND {counts}
      LOCK IN SHARE MODE;
    END IF;
  END IF;
  SET v_now = {now};
  IF v_open AND EXISTS (SELECT 1 FROM {jobs} FORCE INDEX ({jobs}$wake) WHERE wake_time <= v_now AND status = 'scheduled') THEN
    CALL {jobs}$wake(v_now);
  END IF;

  -- first what the worker has locked on another connection and not started: the answer to that grab was lost. A token begins
  -- with its connection, and the new one is the only one
  IF v_open THEN
    SELECT COALESCE(JSON_ARRAYAGG(l.id + 0), '[]'), COUNT(*) INTO v_ids, v_taken
    FROM (SELECT id FROM {jobs} FORCE INDEX ({jobs}$claim) WHERE status = 'locked' AND shard = 1000 AND part = 'NONE' AND worker_id = p_worker
      AND LEFT(lock_token, 8) NOT IN (LEFT(p_token, 8), 'NONE') AND JSON_CONTAINS(p_types, JSON_QUOTE(CONVERT(job_type USING utf8mb4))) ORDER BY id LIMIT p_n) l;
    WHILE v_seen < v_taken DO
      UPDATE {jobs} FORCE INDEX (PRIMARY) SET lock_token = p_token
      WHERE id = JSON_EXTRACT(v_ids, CONCAT('$[', v_seen, ']')) AND status = 'locked' AND worker_id = p_worker;
      SET v_seen = v_seen + 1;
    END WHILE;
  END IF;

  walk: WHILE v_open AND v_taken < p_n AND v_seen < 1000 DO
    IF v_ranges < 3 * JSON_LENGTH(p_types) THEN
      -- add one more range, from its beginning
      SET v_type = JSON_UNQUOTE(JSON_EXTRACT(p_types, CONCAT('$[', v_ranges DIV 3, ']'))), v_part = ELT(v_ranges % 3 + 1, 'NONE', 'free', 'line'),
        v_id = NULL, v_ranges = v_ranges + 1;
    ELSE
      SET v_id = NULL, v_there = FALSE;
      SELECT h.range_part, UNHEX(h.range_type), {order} INTO v_part, v_type, v_run_rank, v_scheduled_run_time, v_id
      FROM JSON_TABLE(v_heads, '$.*' COLUMNS (range_part VARCHAR(4) PATH '$[0]', range_type VARCHAR(510) PATH '$[1]', job BIGINT PATH '$[2]')) h
      STRAIGHT_JOIN {jobs} j FORCE INDEX (PRIMARY) ON j.id = h.job
      WHERE h.range_part = 'free' OR NOT v_full ORDER BY {order} LIMIT 1;
      IF v_id IS NULL THEN
        LEAVE walk;
      END IF;
      -- 0 is no job's id. A row found by a single id stays locked on MariaDB even if the other conditions fail
      SELECT TRUE, j.throttle_factor, j.time_windows, j.asked_time INTO v_there, v_factor, v_windows, v_asked FROM {jobs} j FORCE INDEX (PRIMARY)
      WHERE j.id IN (v_id, 0) AND j.status IN ('available', 'throttled') AND j.shard = 1000 AND j.attempt < 2147483647 {skip_locked};
      SET v_seen = v_seen + 1, v_opening = v_now;
      IF v_there AND v_windows <> 'NONE' THEN
        CALL {job}$opening(v_windows, v_zone, v_now, v_opening); -- NULL if the windows are invalid: hipq work reports it
      END IF;
      IF v_there AND v_opening > v_now THEN
        UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = 'scheduled', scheduled_run_time = v_opening, wake_time = v_opening, asked_time = NULL, update_time = v_now WHERE id = v_id;
      ELSEIF v_there AND v_opening = v_now THEN
        -- as internal/claim/rules.go: no job with a weight overtakes one in line, if a worker has asked for that lately; a job
        -- heavier than the limit runs alone
        IF v_limit > 0 AND v_factor > 0 AND NOT v_full THEN
          SET v_full = v_used > 0 AND v_used + v_factor > v_limit
            OR EXISTS (SELECT 1 FROM {jobs} FORCE INDEX ({jobs}$claim) WHERE status = 'throttled' AND shard = 1000 AND part = 'line'
              AND id <> v_id AND throttle_factor > 0 AND asked_time > v_now - INTERVAL {ask_lasts} SECOND AND NOT {inline behind});
          IF v_full AND (v_asked IS NULL OR v_asked < v_now - INTERVAL {ask_every} SECOND) THEN
            UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = 'throttled', asked_time = v_now WHERE id = v_id;
          END IF;
        END IF;
        IF v_factor = 0 OR NOT v_full THEN
          UPDATE {jobs} FORCE INDEX (PRIMARY) SET status = 'locked', worker_id = p_worker, lock_token = p_token, asked_time = NULL WHERE id = v_id;
          SET v_used = v_used + v_factor, v_ids = JSON_ARRAY_APPEND(v_ids, '$', v_id + 0), v_taken = v_taken + 1;
        END IF;
      END IF;
    END IF;
    -- the next job of this range
    SET v_head = NULL, v_range = CONCAT('$."', v_part, HEX(v_type), '"');
    IF v_part = 'line' THEN
      SELECT JSON_ARRAY(v_part, HEX(v_type), id + 0) INTO v_head FROM {jobs} FORCE INDEX ({jobs}$claim)
      WHERE status = 'throttled' AND shard = 1000 AND part = 'line' AND job_type = v_type AND (v_id IS NULL OR {inline behind})
      ORDER BY {order} LIMIT 1;
    ELSE
      SELECT JSON_ARRAY(v_part, HEX(v_type), id + 0) INTO v_head FROM {jobs} FORCE INDEX ({jobs}$claim)
      WHERE status = 'available' AND shard = 1000 AND part = v_part AND job_type = v_type AND (v_id IS NULL OR {inline behind})
      ORDER BY {order} LIMIT 1;
    END IF;
    SET v_heads = IF(v_head IS NULL, JSON_REMOVE(v_heads, v_range), JSON_SET(v_heads, v_range, JSON_EXTRACT(v_head, '$')));
  END WHILE walk;

  IF p_own THEN
    COMMIT AND NO CHAIN NO RELEASE;
    SET @hipq_begun = NULL;
  END IF;
  SELECT j.id, CONVERT(j.job_type USING utf8mb4) AS job_type, CONVERT(j.job_key USING utf8mb4) AS job_key,
    NULLIF(j.job_data, 'NONE') AS job_data, j.attempt, j.timeout, j.lock_token AS token
  FROM JSON_TABLE(v_ids, '$[*]' COLUMNS (job BIGINT PATH '$')) taken STRAIGHT_JOIN {jobs} j FORCE INDEX (PRIMARY) ON j.id = taken.job
  WHERE j.status = 'locked' AND j.lock_token = p_token ORDER BY {order};
END
