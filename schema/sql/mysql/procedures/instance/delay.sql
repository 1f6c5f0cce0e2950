-- Computes the retry delay in microseconds. Jitter comes after the cap, and only lengthens. p_random is in [0, 1).
CREATE PROCEDURE {self}(IN p_policy {text}, IN p_attempt BIGINT, IN p_random DOUBLE, OUT p_delay DOUBLE)
{traits}
BEGIN
  DECLARE v_delay DOUBLE DEFAULT JSON_EXTRACT(p_policy, '$.delay') / 1000;
  SET p_delay = v_delay;
  IF JSON_UNQUOTE(JSON_EXTRACT(p_policy, '$.backoff')) = 'exponential' THEN
    SET p_delay = LEAST(v_delay * POW(2, LEAST(GREATEST(p_attempt - 1, 0), 62)), GREATEST(JSON_EXTRACT(p_policy, '$.max_delay') / 1000, v_delay));
  END IF;
  SET p_delay = LEAST(p_delay * (1 + JSON_EXTRACT(p_policy, '$.jitter') * p_random), 4611686018427387);
END
