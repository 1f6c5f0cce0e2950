-- Moves of a limit what one part doesn't use to another, until that is to have p_need of it: first what the giver is to have, unless it
-- asks for more itself, and then what it has beyond that. The sums of both stay as they are.
CREATE PROCEDURE {self}(
  IN p_need BIGINT, INOUT p_capacity BIGINT, INOUT p_target BIGINT,
  IN p_asks BOOLEAN, IN p_used BIGINT, INOUT p_giver_capacity BIGINT, INOUT p_giver_target BIGINT)
{traits}
BEGIN
  DECLARE v_n BIGINT DEFAULT 0;
  IF NOT p_asks THEN
    SET v_n = GREATEST(0, LEAST(p_need - p_target, p_giver_target - GREATEST(p_used, 0)));
    SET p_target = p_target + v_n, p_giver_target = p_giver_target - v_n;
  END IF;
  SET v_n = GREATEST(0, LEAST(p_target - p_capacity, p_giver_capacity - GREATEST(p_giver_target, p_used, 0)));
  SET p_capacity = p_capacity + v_n, p_giver_capacity = p_giver_capacity - v_n;
END
