-- How many more starts the rate of the queue, or the shard's part of it, allows at p_now, the turn being ours; and counts p_n, if there
-- is room for one. They are counted by the slices of its time, as hipq work counts them: so that no stretch of that time has more.
CREATE PROCEDURE {self}(IN p_rate {text}, IN p_place INT, IN p_n BIGINT, IN p_now DATETIME(6), OUT p_left BIGINT)
{traits}
BEGIN
  DECLARE v_starts, v_keys {text};
  DECLARE v_kept {text} DEFAULT '{}';
  DECLARE v_per, v_slice, v_at, v_latest, v_here, v_part BIGINT;
  DECLARE v_i, v_n BIGINT DEFAULT 0;
  SET v_per = JSON_EXTRACT(p_rate, '$.per');
  SET v_per = CEIL(v_per / 1000), v_slice = GREATEST(FLOOR(v_per / 60), 1000); -- nanoseconds in the config
  SET v_latest = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', p_now), v_latest = v_latest - v_latest % v_slice, v_here = 0;
  SELECT NULLIF(s.starts, 'NONE'), IF(p_place = 1000, JSON_EXTRACT(p_rate, '$.starts') + 0, LEAST(s.rate_capacity, s.rate_target))
    INTO v_starts, v_part
  FROM {shards} s WHERE s.queue = '{queue}' AND s.shard = p_place FOR UPDATE;
  SET p_left = COALESCE(v_part, 0);
  IF v_starts IS NOT NULL AND (NOT JSON_VALID(v_starts) OR JSON_TYPE(v_starts) <> 'OBJECT') THEN
    SET v_starts = JSON_OBJECT(v_latest, JSON_EXTRACT(p_rate, '$.starts') + 0); -- unreadable: there were as many now as there may be
  END IF;
  SET v_keys = JSON_KEYS(v_starts);
  WHILE v_i < COALESCE(JSON_LENGTH(v_keys), 0) DO
    SET v_at = JSON_UNQUOTE(JSON_EXTRACT(v_keys, CONCAT('$[', v_i, ']'))), v_i = v_i + 1;
    SET v_n = JSON_EXTRACT(v_starts, CONCAT('$."', v_at, '"'));
    SET v_at = LEAST(v_at, v_latest); -- the clock has been put back
    -- its slice may be that of hipq work, which is longer by less than a microsecond
    IF v_at + v_slice + 1 + v_per > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', p_now) THEN
      SET p_left = p_left - v_n;
      IF v_at = v_latest THEN
        SET v_here = v_here + v_n;
      ELSE
        SET v_kept = JSON_SET(v_kept, CONCAT('$."', v_at, '"'), v_n + 0);
      END IF;
    END IF;
  END WHILE;
  IF p_n > 0 AND p_left > 0 THEN
    SET v_kept = JSON_SET(v_kept, CONCAT('$."', v_latest, '"'), v_here + p_n);
    UPDATE {shards} s SET s.starts = v_kept WHERE s.queue = '{queue}' AND s.shard = p_place;
  END IF;
END
