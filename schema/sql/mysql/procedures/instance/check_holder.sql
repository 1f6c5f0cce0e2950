-- Checks that a worker may go on with a job whose row is locked: it must hold the job under this token. p_starting: the
-- worker wants to start the job, not to settle it.
CREATE PROCEDURE {self}(
  IN p_worker {id}, IN p_id BIGINT, IN p_token {text}, IN p_starting BOOLEAN,
  IN p_state VARCHAR(16) CHARACTER SET ascii, IN p_status VARCHAR(16) CHARACTER SET ascii,
  IN p_holder VARBINARY(36), IN p_lock VARBINARY(36), IN p_attempt VARBINARY(36))
{traits}
BEGIN
  DECLARE v_token VARBINARY(36);
  DECLARE v_has BOOLEAN DEFAULT p_status IN ('locked', 'running', 'answered', 'deciding');
  IF p_token IS NULL THEN
    CALL {job}$refuse(31001, 'token is missing');
  ELSEIF p_token = 'NONE' OR LENGTH(p_token) NOT BETWEEN 1 AND 36 THEN
    CALL {job}$refuse(31002, 'token is not one that a grab returned');
  END IF;
  SET v_token = p_token;
  IF p_state IS NULL THEN
    CALL {job}$refuse(31007, CONCAT('no job ', p_id));
  ELSEIF p_attempt = v_token AND p_holder = p_worker AND (NOT v_has OR p_lock <> v_token) THEN
    CALL {job}$refuse(31012, CONCAT('the attempt of job ', p_id, ' has ended already: the job is ', p_state));
  ELSEIF p_state = 'final' THEN
    CALL {job}$refuse(31011, CONCAT('job ', p_id, ' is final'));
  ELSEIF NOT v_has OR p_holder <> p_worker OR p_lock <> v_token THEN
    CALL {job}$refuse(31008, CONCAT('worker ', p_worker, ' does not have job ', p_id, ' under this token, or no longer'));
  ELSEIF p_starting AND p_status <> 'locked' THEN
    CALL {job}$refuse(31009, CONCAT('job ', p_id, ' has been started under this token'));
  ELSEIF NOT p_starting AND p_status = 'locked' THEN
    CALL {job}$refuse(31010, CONCAT('job ', p_id, ' has not been started'));
  END IF;
END
