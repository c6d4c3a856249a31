-- The records of idempotency in MySQL 8 or MariaDB 10.6, or later. Running it again changes nothing.
--
-- Every key is one row, and what a claim does to it is the rule of core/record-rule.ts. The routines run it where the row
-- is, and by the server's clock. Each of their statements is a transaction of its own: they look without a lock, and write
-- only what is still as they saw it; whoever was slower looks again. So a result that is only read costs no write, no
-- transaction holds more than one row, and every isolation level will do.
--
-- The clock is UTC_TIMESTAMP(6), which knows no zone and no summer time. It stands still for one statement, and every
-- statement of a routine reads it anew, on MySQL and on MariaDB.

-- A routine keeps the mode that it was made in, so the one of the session must not get into it.
SET @previous_sql_mode = @@SESSION.sql_mode;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';

CREATE TABLE IF NOT EXISTS holdfast_records (
  -- The hash that stands for scope and key, as bytes: no collation takes two of them for one.
  id BINARY(32) NOT NULL PRIMARY KEY,
  state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- As bytes as well: a collation would not see a space at the end.
  owner VARBINARY(255) NOT NULL,
  fence BIGINT NOT NULL,
  attempt INT NOT NULL,
  took_over TINYINT NOT NULL,
  fingerprint VARBINARY(255) NULL,
  progress MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  result MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  -- All three in microseconds since 1970, UTC. The lease means something only while it is in progress.
  lease_until BIGINT NOT NULL,
  -- From here on the row counts as absent. Null: never.
  expires_at BIGINT NULL,
  created_at BIGINT NOT NULL,
  -- Since 1970: when it is worth looking whether the row can go. It is mostly the same for a claim and its end, and not
  -- touched by renewals, so that these need not touch the index.
  purge_minute INT NULL,
  KEY (purge_minute)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

DELIMITER //

-- Claims a key that has no row, or tells what is there: as much as most claims need, in as few steps as can be. It answers
-- with one or two results, of which the last that has a row counts. `free`: a row is there, and may be claimed.
CREATE PROCEDURE IF NOT EXISTS holdfast_records_look_v1(
  IN p_id BINARY(32), IN p_owner VARBINARY(255), IN p_fingerprint VARBINARY(255), IN p_lease_us BIGINT,
  IN p_retention_us BIGINT, IN p_take_over TINYINT
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
  DECLARE v_beaten TINYINT DEFAULT FALSE;
  -- Somebody else has made the row meanwhile. Not IGNORE, which would also pass over what must not be stored.
  DECLARE CONTINUE HANDLER FOR 1062 SET v_beaten = TRUE;

  SELECT CASE
      WHEN expires_at <= v_now THEN 'free'
      -- Fingerprints of different versions cannot be compared.
      WHEN fingerprint <> p_fingerprint AND LEFT(fingerprint, 3) = LEFT(p_fingerprint, 3) THEN 'mismatch'
      WHEN state IN ('completed', 'failed') THEN state
      WHEN state <> 'in-progress' THEN 'free'
      WHEN lease_until > v_now THEN IF(owner = p_owner, 'claimed', 'in-progress')
      WHEN p_take_over THEN 'free'
      ELSE 'abandoned'
    END AS verdict, fence, CONCAT_WS(' ', attempt, took_over, lease_until - v_now, created_at) AS detail,
    CAST(IF(state IN ('completed', 'failed'), result, IF(owner = p_owner, progress, NULL)) AS BINARY) AS content
  FROM holdfast_records WHERE id = p_id;
  IF FOUND_ROWS() = 0 THEN
    INSERT INTO holdfast_records (
      id, state, owner, fence, attempt, took_over, fingerprint, lease_until, expires_at, created_at, purge_minute
    ) VALUES (
      p_id, 'in-progress', p_owner, v_now, 1, 0, p_fingerprint, v_now + p_lease_us, v_now + p_lease_us + p_retention_us,
      v_now, (v_now + p_retention_us) DIV 60000000
    );
    SELECT IF(v_beaten, 'free', 'first') AS verdict, v_now AS fence;
  END IF;
END //

-- The same for every case: whoever finds the row changed meanwhile looks again. Times are in microseconds, and texts come
-- as UTF-8 bytes, so that the character set of the connection does not matter.
CREATE PROCEDURE IF NOT EXISTS holdfast_records_claim_v1(
  IN p_id BINARY(32), IN p_owner VARBINARY(255), IN p_fingerprint VARBINARY(255), IN p_lease_us BIGINT,
  IN p_retention_us BIGINT, IN p_take_over TINYINT, IN p_only_issued TINYINT
)
SQL SECURITY INVOKER
claim: BEGIN
  DECLARE v_now, v_fence, v_lease, v_expires, v_created BIGINT;
  DECLARE v_attempt, v_rounds INT DEFAULT 0;
  DECLARE v_took_over, v_gone, v_beaten TINYINT DEFAULT FALSE;
  DECLARE v_state, v_verdict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE v_owner, v_fingerprint VARBINARY(255);
  DECLARE v_progress, v_result LONGBLOB;
  -- Somebody else has made the row meanwhile. Not IGNORE, which would also pass over what must not be stored.
  DECLARE CONTINUE HANDLER FOR 1062 SET v_beaten = TRUE;

  look: LOOP
    SET v_state = NULL, v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), v_rounds = v_rounds + 1;
    IF v_rounds > 100 THEN
      SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'holdfast: others are faster';
    END IF;
    SELECT state, owner, fence, attempt, took_over, fingerprint, CAST(progress AS BINARY), CAST(result AS BINARY),
      lease_until, expires_at, created_at
    INTO v_state, v_owner, v_fence, v_attempt, v_took_over, v_fingerprint, v_progress, v_result,
      v_lease, v_expires, v_created
    FROM holdfast_records WHERE id = p_id;

    IF v_state IS NULL THEN
      IF p_only_issued THEN
        SELECT 'missing' AS verdict;
        LEAVE claim;
      END IF;
      SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), v_beaten = FALSE;
      INSERT INTO holdfast_records (
        id, state, owner, fence, attempt, took_over, fingerprint, lease_until, expires_at, created_at, purge_minute
      ) VALUES (
        p_id, 'in-progress', p_owner, v_now, 1, 0, p_fingerprint, v_now + p_lease_us, v_now + p_lease_us + p_retention_us,
        v_now, (v_now + p_retention_us) DIV 60000000
      );
      IF v_beaten THEN ITERATE look; END IF;
      SELECT 'first' AS verdict, v_now AS fence;
      LEAVE claim;
    END IF;

    -- What has run out counts as absent; only its fence matters.
    SET v_gone = v_expires IS NOT NULL AND v_expires <= v_now;
    SET v_verdict = CASE
      WHEN v_gone THEN IF(p_only_issued, 'missing', 'free')
      -- Fingerprints of different versions cannot be compared.
      WHEN v_fingerprint <> p_fingerprint AND LEFT(v_fingerprint, 3) = LEFT(p_fingerprint, 3) THEN 'mismatch'
      WHEN v_state IN ('completed', 'failed') THEN v_state
      WHEN v_state <> 'in-progress' THEN 'free'
      WHEN v_lease > v_now THEN IF(v_owner = p_owner, 'claimed', 'in-progress')
      WHEN p_take_over THEN 'free'
      ELSE 'abandoned'
    END;
    IF v_verdict <> 'free' THEN
      SELECT v_verdict AS verdict, v_fence AS fence,
        CONCAT_WS(' ', v_attempt, v_took_over, v_lease - v_now, v_created) AS detail,
        CASE v_verdict WHEN 'claimed' THEN v_progress WHEN v_state THEN v_result END AS content;
      LEAVE claim;
    END IF;

    -- Whatever changes a row changes one of what is compared. This one changes the fence each time, so that the count says
    -- the same whether it is of rows that were found or of rows that were changed.
    UPDATE holdfast_records SET
      fence = GREATEST(v_fence + 1, v_now),
      state = 'in-progress',
      owner = p_owner,
      attempt = IF(v_gone, 1, attempt + 1),
      took_over = NOT v_gone AND v_state = 'in-progress',
      fingerprint = IF(v_gone, p_fingerprint, COALESCE(v_fingerprint, p_fingerprint)),
      progress = IF(v_gone, NULL, progress),
      result = NULL,
      lease_until = v_now + p_lease_us,
      expires_at = v_now + p_lease_us + p_retention_us,
      created_at = IF(v_gone, v_now, v_created),
      purge_minute = (v_now + p_retention_us) DIV 60000000
    WHERE id = p_id AND fence = v_fence AND state = v_state AND lease_until = v_lease AND expires_at <=> v_expires;
    IF ROW_COUNT() = 1 THEN
      -- The owner before may have saved something after it was looked at. From here on nobody but this one can.
      SELECT 'claimed' AS verdict, GREATEST(v_fence + 1, v_now) AS fence,
        CONCAT_WS(' ', attempt, took_over, p_lease_us, created_at) AS detail, CAST(progress AS BINARY) AS content
      FROM holdfast_records WHERE id = p_id;
      LEAVE claim;
    END IF;
  END LOOP;
END //

-- Extends those of a batch that are alive, and gives their numbers. A renewal never shortens and never revives.
CREATE PROCEDURE IF NOT EXISTS holdfast_records_renew_v1(IN p_batch LONGTEXT CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

  UPDATE JSON_TABLE(p_batch, '$[*]' COLUMNS (
    id VARCHAR(64) PATH '$.id', fence BIGINT PATH '$.fence', owner VARCHAR(510) PATH '$.owner',
    lease_us BIGINT PATH '$.lease', retention_us BIGINT PATH '$.retention'
  )) asked
  STRAIGHT_JOIN holdfast_records record
    ON record.id = UNHEX(asked.id) AND record.fence = asked.fence AND record.owner = UNHEX(asked.owner)
  SET record.expires_at = v_now + asked.lease_us + asked.retention_us, record.lease_until = v_now + asked.lease_us
  WHERE record.state = 'in-progress' AND record.lease_until > v_now AND record.lease_until < v_now + asked.lease_us
    AND (record.expires_at IS NULL OR record.expires_at > v_now);
  -- Those that were alive then, and no others: nobody revives one whose lease has ended.
  SELECT asked.n FROM JSON_TABLE(p_batch, '$[*]' COLUMNS (
    n INT PATH '$.n', id VARCHAR(64) PATH '$.id', fence BIGINT PATH '$.fence', owner VARCHAR(510) PATH '$.owner'
  )) asked
  STRAIGHT_JOIN holdfast_records record
    ON record.id = UNHEX(asked.id) AND record.fence = asked.fence AND record.owner = UNHEX(asked.owner)
  WHERE record.state = 'in-progress' AND record.lease_until > v_now
    AND (record.expires_at IS NULL OR record.expires_at > v_now);
END //

-- Keeps what has been done so far, of a claim that goes on.
CREATE PROCEDURE IF NOT EXISTS holdfast_records_save_v1(
  IN p_id BINARY(32), IN p_owner VARBINARY(255), IN p_fence BIGINT, IN p_progress LONGBLOB
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

  UPDATE holdfast_records SET progress = p_progress
  WHERE id = p_id AND owner = p_owner AND fence = p_fence AND state = 'in-progress'
    AND (expires_at IS NULL OR expires_at > v_now);
  -- What is saved twice changes nothing the second time, so the count would not tell.
  SELECT EXISTS (
    SELECT 1 FROM holdfast_records WHERE id = p_id AND owner = p_owner AND fence = p_fence AND state = 'in-progress'
      AND (expires_at IS NULL OR expires_at > v_now)
  ) AS done;
END //

-- Puts a token there, unless the key is taken.
CREATE PROCEDURE IF NOT EXISTS holdfast_records_issue_v1(IN p_id BINARY(32), IN p_retention_us BIGINT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now BIGINT;
  DECLARE v_done, v_rounds INT DEFAULT 0;
  DECLARE v_beaten TINYINT;
  DECLARE CONTINUE HANDLER FOR 1062 SET v_beaten = TRUE;

  look: LOOP
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), v_beaten = FALSE, v_rounds = v_rounds + 1;
    IF v_rounds > 100 THEN
      SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'holdfast: others are faster';
    END IF;
    INSERT INTO holdfast_records (
      id, state, owner, fence, attempt, took_over, lease_until, expires_at, created_at, purge_minute
    ) VALUES (
      p_id, 'issued', '', v_now, 0, 0, v_now, v_now + p_retention_us, v_now, (v_now + p_retention_us) DIV 60000000
    );
    IF NOT v_beaten THEN
      SET v_done = 1;
      LEAVE look;
    END IF;
    -- What has run out counts as absent; only its fence matters.
    UPDATE holdfast_records SET
      fence = GREATEST(fence + 1, v_now), state = 'issued', owner = '', attempt = 0, took_over = 0, fingerprint = NULL,
      progress = NULL, result = NULL, lease_until = v_now, expires_at = v_now + p_retention_us, created_at = v_now,
      purge_minute = (v_now + p_retention_us) DIV 60000000
    WHERE id = p_id AND expires_at <= v_now;
    SET v_done = ROW_COUNT() = 1;
    IF v_done OR EXISTS (SELECT 1 FROM holdfast_records WHERE id = p_id) THEN LEAVE look; END IF;
    -- It was there, and is gone again.
  END LOOP;
  SELECT v_done AS done;
END //

-- Uses a token up. The first showing changes its state, and each one is counted where that is asked for.
CREATE PROCEDURE IF NOT EXISTS holdfast_records_spend_v1(IN p_id BINARY(32), IN p_count TINYINT)
SQL SECURITY INVOKER
spend: BEGIN
  DECLARE v_now BIGINT;
  DECLARE v_uses, v_rounds INT DEFAULT 0;
  DECLARE v_state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;

  look: LOOP
    SET v_state = NULL, v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), v_rounds = v_rounds + 1;
    IF v_rounds > 100 THEN
      SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'holdfast: others are faster';
    END IF;
    SELECT state, attempt INTO v_state, v_uses FROM holdfast_records
    WHERE id = p_id AND (expires_at IS NULL OR expires_at > v_now);
    IF v_state IS NULL THEN
      SELECT 'missing' AS verdict, 0 AS uses;
      LEAVE spend;
    ELSEIF v_state <> 'issued' AND NOT p_count THEN
      SELECT 'used' AS verdict, v_uses AS uses;
      LEAVE spend;
    END IF;
    UPDATE holdfast_records SET state = IF(v_state = 'issued', 'completed', v_state), attempt = v_uses + 1
    WHERE id = p_id AND state = v_state AND attempt = v_uses;
    IF ROW_COUNT() = 1 THEN
      SELECT IF(v_state = 'issued', 'spent', 'used') AS verdict, v_uses + 1 AS uses;
      LEAVE spend;
    END IF;
  END LOOP;
END //

DELIMITER ;

SET SESSION sql_mode = @previous_sql_mode;
