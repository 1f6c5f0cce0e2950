-- Lets the first job that a throttle group holds in, as internal/store/claim_groups.go. In the caller's transaction (p_own is
-- false) the turn would block all starts until the commit: there hipq work's search for overlooked groups does it.
CREATE PROCEDURE {self}(IN p_own BOOLEAN, IN p_shard INT, IN p_group VARBINARY(255), IN p_factor BIGINT)
{traits}
body: BEGIN
  DECLARE v_types, v_type VARBINARY(255) DEFAULT '';
  DECLARE v_firsts {text} DEFAULT '[]'; -- of each type
  DECLARE v_now DATETIME(6);
  DECLARE v_run_rank BIGINT; DECLARE v_scheduled_run_time DATETIME(6); DECLARE v_id BIGINT;
  IF NOT p_own OR COALESCE(p_factor, 0) = 0 OR p_group IN ('NONE', '') THEN
    LEAVE body;
  END IF;
  UPDATE {shards} s SET s.turn = s.turn % 1000000000 + 1 WHERE s.queue = '{queue}' AND s.shard = p_shard;
  walk: LOOP
    SET v_id = NULL;
    SELECT job_type, id INTO v_type, v_id FROM {jobs} FORCE INDEX ({jobs}$claim)
    WHERE status = 'throttled' AND shard = p_shard AND part = p_group AND job_type > v_types ORDER BY job_type, {order} LIMIT 1;
    IF v_id IS NULL THEN
      LEAVE walk;
    END IF;
    SET v_types = v_type, v_firsts = JSON_ARRAY_APPEND(v_firsts, '$', v_id + 0);
  END LOOP walk;
  SELECT {order} INTO v_run_rank, v_scheduled_run_time, v_id
  FROM JSON_TABLE(v_firsts, '$[*]' COLUMNS (job BIGINT PATH '$')) f STRAIGHT_JOIN {jobs} j FORCE INDEX (PRIMARY) ON j.id = f.job
  ORDER BY {order} LIMIT 1;
  -- 0 is no job's id. A row found by a single id stays locked on MariaDB even if the other conditions fail
  SELECT {now} INTO v_now FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id IN (v_id, 0) AND j.status = 'throttled' {skip_locked};
  UPDATE {jobs} FORCE INDEX (PRIMARY) SET asked_time = v_now WHERE id = v_id AND v_now IS NOT NULL;
END
