-- A worker is known by its secret, and its id, which others see, is made of that. So no id that they see is a secret: not that of
-- another, nor one of hipq work.
IF worker_secret IS NULL THEN
  CALL {job}$refuse(31001, 'worker_secret is missing');
ELSEIF CHAR_LENGTH(worker_secret) NOT BETWEEN 32 AND 255 THEN
  CALL {job}$refuse(31002, 'worker_secret is not 32 to 255 characters long: make it of random bytes');
END IF;
SET v_id = LEFT(SHA2(worker_secret, 256), 36);
