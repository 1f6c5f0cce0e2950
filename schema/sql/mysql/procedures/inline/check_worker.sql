-- A worker's id is a hash of its secret. So an id, which others see, is never a secret, neither of another worker nor
-- of hipq work.
IF worker_secret IS NULL THEN
  CALL {job}$refuse(31001, 'worker_secret is missing');
ELSEIF CHAR_LENGTH(worker_secret) NOT BETWEEN 32 AND 255 THEN
  CALL {job}$refuse(31002, 'worker_secret is not 32 to 255 characters long: make it from random bytes');
END IF;
SET v_id = LEFT(SHA2(worker_secret, 256), 36);
