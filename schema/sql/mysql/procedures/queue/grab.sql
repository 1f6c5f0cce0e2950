-- Locks due jobs of some types for a worker that starts them later: in order, as many as it asks for and the limits have room for.
-- The next job in order is the least of the heads of some ranges of the index: one for each part of the line and each type.
-- Whoever locks a head by its id looks again. What the limits say is judged as a round of hipq work does. It commits a transaction
-- of its own, and answers. p_types is a JSON array, or NULL: p_type alone.
-- All that it locks is of one shard: the first, from a random one on, in which there is any for it; in the caller's transaction it tries
-- one alone.
CREATE PROCEDURE {self}(IN p_worker {id}, IN p_type VARBINARY(64), IN p_types {text}, IN p_n BIGINT, IN p_own BOOLEAN)
{traits}
BEGIN
  DECLARE v_settings, v_rate, v_by, v_limits, v_windows, v_zone, v_data, v_types {text};
  DECLARE v_ids {text} DEFAULT '[]';
  DECLARE v_now, v_opening DATETIME(6);
  DECLARE v_limit, v_room, v_used, v_busy, v_factor, v_left, v_gained, v_group_limit, v_group_used BIGINT;
  DECLARE v_division, v_begin INT;
  DECLARE v_place INT DEFAULT 1000;
  DECLARE v_one BOOLEAN DEFAULT p_n = 1;
  DECLARE v_paused, v_works, v_open, v_suspect BOOLEAN DEFAULT FALSE;
  DECLARE v_walked, v_taken, v_id BIGINT DEFAULT 0;
  DECLARE v_passed, v_tried INT DEFAULT 0;
  DECLARE v_attempt, v_timeout INT UNSIGNED;
  DECLARE v_token {id} DEFAULT CAST(UUID() AS CHAR);
  DECLARE v_group, v_old_group, v_key VARBINARY(255);
  DECLARE v_type VARBINARY(64);

  SELECT NULLIF(q.settings, 'NONE'), q.paused, q.throttle_limit, q.division, w.state = 'working' AND w.lock_until > UTC_TIMESTAMP(6)
    INTO v_settings, v_paused, v_limit, v_division, v_works
  FROM {queues} q LEFT JOIN {workers} w ON w.id = p_worker WHERE q.queue = '{queue}';
  IF v_limit IS NULL THEN
    CALL {job}$refuse(31003, 'unknown queue {queue}');
  ELSEIF NOT COALESCE(v_works, FALSE) THEN
    CALL {job}$find_worker(p_worker);
  END IF;
  IF v_settings IS NOT NULL THEN
    SET v_by = JSON_UNQUOTE(JSON_EXTRACT(v_settings, '$.throttle_groups.by')),
      v_limits = JSON_EXTRACT(v_settings, '$.throttle_groups.limits'), v_zone = JSON_EXTRACT(v_settings, '$.zone'),
      v_rate = JSON_EXTRACT(v_settings, '$.rate');
  END IF;
  IF v_division > 1 THEN
    -- while hipq init divides the queue anew its settings may be still the old ones
    IF v_division <> IF(v_by IS NULL, 0, 1000 * (1 + CRC32(v_by) % 999)) + v_division % 1000 THEN
      SET v_paused = TRUE;
    END IF;
    SET v_types = COALESCE(p_types, JSON_ARRAY(CONVERT(p_type USING utf8mb4))), v_begin = FLOOR(RAND() * (v_division % 1000));
    IF NOT v_paused THEN
      CALL {jobs}$upkeep(v_types, p_worker, v_division, v_settings, UTC_TIMESTAMP(6));
      IF p_own THEN
        {inline anew}
      END IF;
    END IF;
  END IF;

  shards_: LOOP
    IF v_division > 1 THEN
      SET v_place = NULL;
      IF NOT v_paused AND v_tried < 16 THEN
        CALL {jobs}$shard(v_types, v_division, v_by IS NOT NULL, v_begin, v_passed, v_place);
      END IF;
      IF v_place IS NULL THEN
        LEAVE shards_;
      END IF;
    END IF;
    try: BEGIN
      DECLARE v_ranges {text} DEFAULT '[]';
      DECLARE v_closed {text} DEFAULT ',';
      DECLARE v_group_data {text};
      DECLARE v_plain, v_full, v_alone, v_more BOOLEAN DEFAULT FALSE;
      DECLARE v_other VARCHAR(16) CHARACTER SET ascii;
      DECLARE v_n BIGINT DEFAULT p_n;
      DECLARE v_line VARCHAR(16) CHARACTER SET ascii DEFAULT 'due';
      DECLARE v_part VARBINARY(255) DEFAULT 'NONE';
      DECLARE v_rank BIGINT DEFAULT -9223372036854775808;
      DECLARE v_at DATETIME(6) DEFAULT '1970-01-01';
      SET v_id = 0, v_type = p_type, v_tried = v_tried + 1, v_open = FALSE;
      IF v_limit > 0 OR v_by IS NOT NULL OR v_rate IS NOT NULL THEN
        -- who locks jobs of such a queue takes turns, for a sum over rows says nothing of what another is about to lock
        UPDATE {shards} s SET s.turn = s.turn % 1000000000 + 1 WHERE s.queue = '{queue}' AND s.shard = v_place;
        IF ROW_COUNT() = 0 THEN
          LEAVE try; -- the queue has been divided anew meanwhile
        END IF;
      END IF;
      SET v_now = UTC_TIMESTAMP(6);
      SELECT COUNT(*), COALESCE(MAX(j.suspect), 0) INTO v_busy, v_alone FROM {jobs} j FORCE INDEX ({jobs}${pick})
      WHERE j.line = 'locked' AND j.worker_id = p_worker;
      SET v_open = NOT v_paused AND NOT v_alone;
      IF v_open THEN
        IF v_rate IS NOT NULL THEN
          CALL {jobs}$rate(v_rate, v_place, 0, v_now, v_left);
          -- what is grabbed and not started yet counts when it starts
          SET v_left = v_left - (SELECT COUNT(*) FROM {jobs} j FORCE INDEX ({jobs}${pick})
            WHERE j.line = 'locked' AND j.shard = v_place AND j.state IN ('initial', 'retry'));
          IF v_left < 1 AND v_division > 1 THEN
            CALL {jobs}$borrow(p_own, v_place, v_rate, v_limit, -1, 0, 0, v_n - v_left, 0, v_now, v_room, v_gained);
            SET v_left = v_left + v_gained;
          END IF;
          SET v_n = LEAST(v_n, v_left);
        END IF;
        IF v_limit > 0 THEN
          CALL {jobs}$used(p_own, v_place, NULL, v_used);
          SET v_room = v_limit;
          IF v_division > 1 THEN
            SELECT LEAST(s.capacity, s.target) INTO v_room FROM {shards} s WHERE s.queue = '{queue}' AND s.shard = v_place FOR UPDATE;
          END IF;
        END IF;
        -- Usually one range has all that there is, and nothing else is to be done before: then a job is found and locked by one statement.
        -- In a transaction of the caller's that would lock the gaps between rows too. What looks for others reads a column that the index
        -- lacks, for else MySQL would scan the whole index.
        IF p_own AND v_by IS NULL AND p_types IS NULL THEN
          SELECT j.state INTO v_other FROM {jobs} j FORCE INDEX ({jobs}$wake)
          WHERE j.wake_time <= v_now AND j.line = 'later' LIMIT 1;
          SELECT j.state INTO v_other FROM {jobs} j FORCE INDEX ({jobs}${pick}) WHERE j.shard = v_place AND j.job_type = p_type
            AND (j.line IN ('new', 'error') AND j.part = 'NONE' OR j.line = 'due' AND j.part IN ('free', 'suspect', 'suspect free')) LIMIT 1;
          SET v_plain = v_other IS NULL;
        END IF;
        IF NOT v_plain THEN
          IF v_division = 1 THEN
            SET v_types = COALESCE(p_types, JSON_ARRAY(CONVERT(p_type USING utf8mb4)));
            CALL {jobs}$upkeep(v_types, p_worker, v_division, v_settings, v_now);
          END IF;
          CALL {jobs}$ranges(v_place, v_types, p_worker, v_settings, v_now, v_ranges, v_more);
        END IF;
      END IF;

      WHILE v_open AND v_taken < v_n AND v_walked < 1000 AND (v_plain AND NOT v_full OR JSON_LENGTH(v_ranges) > 0) DO
        SET v_walked = v_walked + 1, v_key = NULL;
        IF v_plain THEN
          SELECT j.id, j.run_rank, j.job_key, j.throttle_factor, j.throttle_group, j.time_windows, j.suspect, j.scheduled_run_time,
              j.attempt, j.timeout, IF(v_one, NULLIF(j.job_data, 'NONE'), NULL)
            INTO v_id, v_rank, v_key, v_factor, v_old_group, v_windows, v_suspect, v_at, v_attempt, v_timeout, v_data
          FROM {jobs} j FORCE INDEX ({jobs}${pick})
          WHERE j.line = 'due' AND j.shard = v_place AND j.part = 'NONE' AND j.job_type = v_type
            AND (j.run_rank > v_rank OR j.run_rank = v_rank AND j.scheduled_run_time > v_at
              OR j.run_rank = v_rank AND j.scheduled_run_time = v_at AND j.id > v_id)
            AND j.state IN ('initial', 'retry') AND j.attempt < 2147483647
          ORDER BY j.run_rank, j.scheduled_run_time, j.id LIMIT 1 {skip_locked};
          SET v_plain = v_key IS NOT NULL;
        ELSE
          CALL {jobs}$next(v_place, v_ranges, v_full, v_alone, v_closed, v_line, v_part, v_type, v_id);
          IF v_id IS NOT NULL THEN
            -- 0 is no job's id: a row that is found by one id alone stays locked on MariaDB, although the other conditions may not be met
            SELECT j.job_key, j.throttle_factor, j.throttle_group, j.time_windows, j.suspect, j.scheduled_run_time,
                j.attempt, j.timeout, IF(v_one, NULLIF(j.job_data, 'NONE'), NULL)
              INTO v_key, v_factor, v_old_group, v_windows, v_suspect, v_at, v_attempt, v_timeout, v_data
            FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id IN (v_id, 0) AND j.line IN ('due', 'held') AND j.shard = v_place AND j.state IN ('initial', 'retry') AND j.attempt < 2147483647 {skip_locked};
          END IF;
        END IF;
        -- a row that only hipq work can judge is left to that, and so is one that another transaction holds
        IF v_key IS NOT NULL AND v_key <> '' AND LOCATE(CHAR(0), v_key) = 0 AND v_key = CAST(CONVERT(v_key USING utf8mb4) AS BINARY)
          AND v_suspect = (v_part IN ('suspect', 'suspect free')) THEN
          SET v_group = NULL, v_group_limit = 0, v_opening = v_now;
          IF v_windows <> 'NONE' THEN
            CALL {job}$opening(v_windows, v_zone, v_now, v_opening);
          END IF;
          IF v_by IS NOT NULL AND v_factor > 0 THEN
            SET v_group = v_old_group;
            IF LEFT(v_old_group, LENGTH(v_by) + 1) <> CONCAT(v_by, '=') THEN
              SELECT j.job_data INTO v_group_data FROM {jobs} j FORCE INDEX (PRIMARY) WHERE j.id = v_id;
              CALL {jobs}$group(v_by, v_type, v_group_data, v_group);
            END IF;
            CALL {job}$limit(v_by, v_limits, v_group, v_group_limit);
          END IF;
          IF v_opening IS NULL OR v_by IS NOT NULL AND v_factor > 0 AND v_group IS NULL THEN
            SET v_key = NULL; -- unreadable windows, or a group that SQL can't tell
          ELSEIF v_opening > v_now THEN
            UPDATE {jobs} FORCE INDEX (PRIMARY) SET line = 'later', scheduled_run_time = v_opening, wake_time = v_opening, update_time = v_now WHERE id = v_id;
          ELSEIF v_factor > 0 AND v_full THEN
            SET v_key = NULL; -- it waits, and so do all behind it that weigh something
          ELSE
            IF v_group_limit > 0 THEN
              CALL {jobs}$used(p_own, v_place, v_group, v_group_used);
            END IF;
            IF v_group_limit > 0 AND (LOCATE(CONCAT(',', HEX(v_group), ','), v_closed) > 0 OR v_group_used > 0 AND v_group_used + v_factor > v_group_limit
              OR v_line = 'due' AND v_more AND EXISTS (SELECT 1 FROM {jobs} j FORCE INDEX ({jobs}${pick}) WHERE j.line = 'held' AND j.shard = v_place AND j.part = v_group)) THEN
              SET v_closed = CONCAT(v_closed, HEX(v_group), ',');
              IF v_line = 'due' AND NOT v_suspect THEN
                UPDATE {jobs} FORCE INDEX (PRIMARY) SET line = 'held', throttle_group = v_group WHERE id = v_id;
              END IF;
            ELSE
              IF v_limit > 0 AND v_factor > 0 THEN
                -- one heavier than the whole limit goes alone, where the shard has all of it
                SET v_full = IF(v_factor > v_limit, v_used > 0 OR v_room < v_limit, v_used + v_factor > v_room);
                IF v_full AND v_division > 1 THEN
                  CALL {jobs}$borrow(p_own, v_place, v_rate, v_limit, v_id, v_factor, v_factor * (v_n - v_taken), GREATEST(0, p_n - v_n), v_used,
                    v_now, v_room, v_gained);
                  SET v_full = IF(v_factor > v_limit, v_used > 0 OR v_room < v_limit, v_used + v_factor > v_room);
                END IF;
              END IF;
              IF v_full AND v_factor > 0 THEN
                SET v_key = NULL; -- it waits
              ELSEIF v_suspect AND (v_busy > 0 OR v_taken > 0) THEN
                -- it runs alone, when this worker has nothing else; its room is kept for it
                SET v_used = v_used + v_factor, v_alone = TRUE;
              ELSE
                UPDATE {jobs} FORCE INDEX (PRIMARY) SET line = 'locked', worker_id = p_worker, lock_token = v_token, wake_time = NULL,
                  throttle_group = COALESCE(v_group, throttle_group) WHERE id = v_id;
                SET v_used = v_used + v_factor, v_ids = JSON_ARRAY_APPEND(v_ids, '$', v_id + 0), v_taken = v_taken + 1;
                IF v_suspect THEN
                  SET v_n = v_taken;
                END IF;
              END IF;
            END IF;
          END IF;
        END IF;
      END WHILE;
    END try;
    IF v_division = 1 OR v_taken > 0 OR NOT v_open OR NOT p_own THEN
      LEAVE shards_;
    END IF;
    {inline anew}
  END LOOP shards_;

  IF p_own THEN
    COMMIT AND NO CHAIN NO RELEASE;
  END IF;
  IF v_one AND v_taken = 1 THEN
    SELECT v_id AS id, CONVERT(v_type USING utf8mb4) AS job_type, CONVERT(v_key USING utf8mb4) AS job_key, v_data AS job_data,
      v_attempt AS attempt, v_timeout AS timeout, v_token AS token;
  ELSE
    SELECT j.id, CONVERT(j.job_type USING utf8mb4) AS job_type, CONVERT(j.job_key USING utf8mb4) AS job_key,
      NULLIF(j.job_data, 'NONE') AS job_data, j.attempt, j.timeout, j.lock_token AS token
    FROM JSON_TABLE(v_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) taken STRAIGHT_JOIN {jobs} j FORCE INDEX (PRIMARY) ON j.id = taken.id
    WHERE j.line = 'locked' AND j.lock_token = v_token ORDER BY j.run_rank, j.scheduled_run_time, j.id;
  END IF;
END
