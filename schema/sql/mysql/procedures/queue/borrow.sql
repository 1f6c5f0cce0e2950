-- Asks the other shards for what one lacks of the queue's limit (p_weight, for jobs of which the first is p_job and weighs p_first) or of its
-- rate (p_starts); 0 is nothing. In a transaction of its own it takes at once what is free of those whose turn nobody else has, and keeps
-- their turns until that ends: it waits for none. What that doesn't satisfy is written down as the shard's demand, for hipq work to divide
-- all anew by it. The turn of p_place is ours, and p_used what counts against its limit. p_room is what it may use of that then, and
-- p_gained how many starts it has got.
CREATE PROCEDURE {self}(
  IN p_own BOOLEAN, IN p_place INT, IN p_rate {text}, IN p_limit BIGINT, IN p_job BIGINT, IN p_first BIGINT, IN p_weight BIGINT,
  IN p_starts BIGINT, IN p_used BIGINT, IN p_now DATETIME(6), OUT p_room BIGINT, OUT p_gained BIGINT)
{traits}
BEGIN
  DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', p_now);
  DECLARE v_at, v_since, v_capacity, v_target, v_rate_capacity, v_rate_target, v_need, v_rate_need BIGINT;
  DECLARE v_other INT;
  DECLARE v_other_capacity, v_other_target, v_other_rate_capacity, v_other_rate_target, v_used, v_left BIGINT;
  DECLARE v_demand, v_other_demand {text};
  DECLARE v_asks, v_done BOOLEAN DEFAULT FALSE;
  DECLARE others CURSOR FOR SELECT s.shard, s.capacity, s.target, s.rate_capacity, s.rate_target, IF(JSON_VALID(s.demand), s.demand, NULL)
    FROM {shards} s FORCE INDEX (PRIMARY) WHERE s.queue = '{queue}' AND s.shard <> p_place ORDER BY s.shard {skip_locked};
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  SELECT s.capacity, s.target, s.rate_capacity, s.rate_target, IF(JSON_VALID(s.demand), s.demand, NULL)
    INTO v_capacity, v_target, v_rate_capacity, v_rate_target, v_demand
  FROM {shards} s WHERE s.queue = '{queue}' AND s.shard = p_place FOR UPDATE;
  SET p_room = LEAST(v_capacity, v_target), p_gained = -LEAST(v_rate_capacity, v_rate_target);
  SET v_need = IF(p_weight > 0, LEAST(p_limit, GREATEST(p_used, 0) + GREATEST(p_weight, p_first)), 0);
  SET v_rate_need = IF(p_starts > 0, LEAST(JSON_EXTRACT(p_rate, '$.starts'), p_starts - p_gained), 0);
  SET v_at = JSON_EXTRACT(v_demand, '$.at');
  -- whoever has asked for it a quarter of a second ago: what there was to be had it has got
  IF v_at IS NULL OR v_now - v_at NOT BETWEEN 0 AND 249999 THEN
    IF p_own THEN
      OPEN others;
      walk: LOOP
        SET v_done = LEAST(v_capacity, v_target) >= v_need AND LEAST(v_rate_capacity, v_rate_target) >= v_rate_need;
        IF NOT v_done THEN
          FETCH others INTO v_other, v_other_capacity, v_other_target, v_other_rate_capacity, v_other_rate_target, v_other_demand;
        END IF;
        IF v_done THEN
          LEAVE walk;
        END IF;
        SET v_asks = COALESCE(ABS(v_now - JSON_EXTRACT(v_other_demand, '$.at')) < 2000000, FALSE);
        IF LEAST(v_capacity, v_target) < v_need AND (v_other_capacity > 0 OR v_other_target > 0) THEN
          CALL {jobs}$used(TRUE, v_other, NULL, v_used);
          CALL {job}$lend(v_need, v_capacity, v_target, v_asks AND COALESCE(JSON_EXTRACT(v_other_demand, '$.weight') > 0, FALSE), v_used,
            v_other_capacity, v_other_target);
        END IF;
        IF LEAST(v_rate_capacity, v_rate_target) < v_rate_need AND (v_other_rate_capacity > 0 OR v_other_rate_target > 0) THEN
          CALL {jobs}$rate(p_rate, v_other, 0, p_now, v_left);
          CALL {job}$lend(v_rate_need, v_rate_capacity, v_rate_target, v_asks AND COALESCE(JSON_EXTRACT(v_other_demand, '$.starts') > 0, FALSE),
            LEAST(v_other_rate_capacity, v_other_rate_target) - v_left, v_other_rate_capacity, v_other_rate_target);
        END IF;
        UPDATE {shards} s SET s.capacity = v_other_capacity, s.target = v_other_target, s.rate_capacity = v_other_rate_capacity,
          s.rate_target = v_other_rate_target WHERE s.queue = '{queue}' AND s.shard = v_other;
      END LOOP walk;
      CLOSE others;
    END IF;
    SET p_room = LEAST(v_capacity, v_target);
    IF v_at IS NULL OR ABS(v_now - v_at) >= 2000000 THEN
      SET v_demand = NULL; -- it has lapsed
    END IF;
    IF p_room < v_need OR LEAST(v_rate_capacity, v_rate_target) < v_rate_need THEN
      SET v_since = IF(JSON_EXTRACT(v_demand, '$.job') = p_job, JSON_EXTRACT(v_demand, '$.since'), NULL);
      SET v_demand = CONCAT('{"job":', p_job, ',"since":', COALESCE(v_since, v_now), ',"at":', v_now, ',"first":', p_first, ',"weight":', p_weight,
        ',"starts":', p_starts, ',"open":true}');
    ELSEIF JSON_EXTRACT(v_demand, '$.job') = p_job THEN
      SET v_demand = NULL;
    END IF;
    UPDATE {shards} s SET s.capacity = v_capacity, s.target = v_target, s.rate_capacity = v_rate_capacity, s.rate_target = v_rate_target,
      s.demand = COALESCE(v_demand, 'NONE') WHERE s.queue = '{queue}' AND s.shard = p_place;
  END IF;
  SET p_gained = p_gained + LEAST(v_rate_capacity, v_rate_target);
END
