-- Where a job belongs in a queue of more than one shard, as hipq tells it: by its throttle group, or else by its shard_key, or else by
-- its key. NULL where SQL can't tell the group. What the groups are by is in the place: while hipq init divides the queue anew its
-- settings may still be the old ones, and then whatever they have placed is seen to be misplaced.
CREATE PROCEDURE {self}(
  IN p_division INT, IN p_by {text}, IN p_type VARBINARY(64), IN p_key VARBINARY(255), IN p_shard_key VARBINARY(255), IN p_data {text},
  OUT p_place INT)
{traits}
BEGIN
  DECLARE v_group VARBINARY(255);
  DECLARE v_name VARBINARY(255) DEFAULT IF(p_shard_key IN ('NONE', ''), p_key, p_shard_key);
  DECLARE v_n INT DEFAULT p_division % 1000;
  IF p_by IS NOT NULL THEN
    CALL {jobs}$group(p_by, p_type, p_data, v_group);
    IF v_group IS NULL OR v_group <> CONCAT(p_by, '=') THEN -- else it is in none
      SET v_name = v_group;
    END IF;
  END IF;
  SET p_place = 1000 * IF(p_by IS NULL, v_n, 1000 * (1 + CRC32(p_by) % 999) + v_n) + CRC32(v_name) % v_n;
END
