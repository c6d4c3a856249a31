-- The tables and routines of Holdfast in MySQL 8 or MariaDB 10.6, or later. Running it again changes nothing.
--
-- Every claim is one row. The rows of a resource in the order of their fences are its line, and the rule is the one of
-- core/line.ts: a claim is admitted when the weights up to and including its own fit the limit. The routines run it where
-- the rows are, in short transactions at READ COMMITTED, and by the server's clock.
--
-- A line that has any row has one with the seat 0. So one INSERT at seat 0 finds out whether the line is empty, and takes
-- the lock if it is, without a routine; and one DELETE gives it back for as long as the row is marked as alone. Whoever
-- joins behind it takes away that mark first. From then on it is not deleted before the line is empty: when its claim
-- ends, it stays as a row that expired long ago, at 0, and counts for nothing.
--
-- The clock is UTC_TIMESTAMP(6), which knows no zone and no summer time. It stands still for one statement, and every
-- statement of a routine reads it anew, on MySQL and on MariaDB.

-- A routine keeps the mode that it was made in, so the one of the session must not get into it.
SET @previous_sql_mode = @@SESSION.sql_mode;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';

-- The fence comes from its counter, which a DELETE does not set back, but a TRUNCATE does: never use that here. A fence is
-- only ever drawn under the lock of the slot, so those of a resource grow in the order in which it was taken.
CREATE TABLE IF NOT EXISTS holdfast_places (
  -- The SHA-256 of the name, which is the same for equal names only, whatever the collation.
  resource BINARY(32) NOT NULL,
  seat BIGINT NOT NULL,
  fence BIGINT NOT NULL AUTO_INCREMENT,
  id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  line_limit INT NOT NULL,
  weight INT NOT NULL,
  -- Both in microseconds since 1970, UTC.
  joined_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  host VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  pid BIGINT NOT NULL,
  client VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  note VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  is_alone TINYINT NOT NULL,
  PRIMARY KEY (resource, seat),
  KEY (fence)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Whoever takes a place locks the slot of its resource, which is the first byte of the hash: a row that is there, never
-- a gap. The fences of the recipe `for-update` are counted in it, and its rows are never deleted.
CREATE TABLE IF NOT EXISTS holdfast_slots (
  slot SMALLINT UNSIGNED NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT IGNORE INTO holdfast_slots (slot, fence)
SELECT high.n * 16 + low.n, 0 FROM (
  SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5
  UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9 UNION ALL SELECT 10 UNION ALL SELECT 11
  UNION ALL SELECT 12 UNION ALL SELECT 13 UNION ALL SELECT 14 UNION ALL SELECT 15
) high, (
  SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5
  UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9 UNION ALL SELECT 10 UNION ALL SELECT 11
  UNION ALL SELECT 12 UNION ALL SELECT 13 UNION ALL SELECT 14 UNION ALL SELECT 15
) low;

-- The rows that the recipe `for-update` locks: one for each name, made before it is locked, so that it is never a gap.
CREATE TABLE IF NOT EXISTS holdfast_rows (
  resource BINARY(32) NOT NULL PRIMARY KEY,
  name VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  -- Who has the row locked, written and never committed: the connection in the lower 32 bits, and above it a random number
  -- that tells this acquisition from every other one.
  holder BIGINT NOT NULL DEFAULT 0
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

DELIMITER //

-- Removes what had expired at the given time. The caller has the lock of the slot. This waits for a renewal that is under
-- way and spares what it has extended, so whatever is there afterwards counts.
CREATE PROCEDURE IF NOT EXISTS holdfast_clear_v1(IN p_resource BINARY(32), IN p_now BIGINT)
SQL SECURITY INVOKER
BEGIN
  DELETE FROM holdfast_places WHERE resource = p_resource AND seat > 0 AND expires_at <= p_now;
  IF EXISTS (SELECT 1 FROM holdfast_places WHERE resource = p_resource AND seat > 0) THEN
    UPDATE holdfast_places SET expires_at = 0 WHERE resource = p_resource AND seat = 0 AND expires_at <= p_now;
  ELSE
    DELETE FROM holdfast_places WHERE resource = p_resource AND seat = 0 AND expires_at <= p_now;
  END IF;
END //

-- Takes a place for a claim, or answers for the place that it has. Texts come as UTF-8 bytes, so that the character set
-- of the connection does not matter.
CREATE PROCEDURE IF NOT EXISTS holdfast_take_v1(
  IN p_resource BINARY(32), IN p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, IN p_name VARBINARY(512),
  IN p_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin, IN p_limit INT, IN p_weight INT,
  IN p_ttl_us BIGINT, IN p_host VARBINARY(2048), IN p_pid BIGINT,
  IN p_client VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, IN p_note VARBINARY(1024),
  IN p_slot INT, IN p_lease_us BIGINT, IN p_waits TINYINT
)
SQL SECURITY INVOKER
take: BEGIN
  DECLARE v_now, v_fence, v_total, v_first, v_own, v_sum, v_expires, v_lease, v_pid, v_head, v_seat BIGINT;
  DECLARE v_slot, v_count, v_ahead, v_weight, v_limit INT;
  DECLARE v_cleared, v_admitted, v_wanted TINYINT DEFAULT FALSE;
  DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE v_client VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE v_host VARBINARY(2048);
  DECLARE v_note VARBINARY(4096);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  -- What another transaction has just committed must be seen after waiting for it.
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  -- From here to the end nobody else takes a place at this resource, and nobody who is alone gives it back.
  SELECT slot INTO v_slot FROM holdfast_slots WHERE slot = p_slot FOR UPDATE;
  IF v_slot IS NULL THEN
    SIGNAL SQLSTATE '42S02' SET MYSQL_ERRNO = 1146, MESSAGE_TEXT = 'holdfast: a slot is missing';
  END IF;
  SELECT seat INTO v_head FROM holdfast_places WHERE resource = p_resource AND seat = 0 FOR UPDATE;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

  look: LOOP
    SELECT COUNT(*), COALESCE(SUM(weight), 0), MIN(expires_at), MAX(IF(id = p_id, fence, NULL)), COALESCE(MAX(seat) + 1, 0)
    INTO v_count, v_total, v_first, v_own, v_seat
    FROM holdfast_places WHERE resource = p_resource AND expires_at > 0;
    IF v_head IS NULL OR v_cleared OR v_first > v_now THEN LEAVE look; END IF;
    -- An expired row is absent, and is removed before anything is decided.
    CALL holdfast_clear_v1(p_resource, v_now);
    SET v_cleared = TRUE;
  END LOOP;

  IF v_count > 0 THEN
    SELECT kind, line_limit, CAST(host AS BINARY), pid, client, CAST(note AS BINARY)
    INTO v_kind, v_limit, v_host, v_pid, v_client, v_note
    FROM holdfast_places WHERE resource = p_resource AND expires_at > 0 ORDER BY seat LIMIT 1;
    IF v_kind <> p_kind OR v_limit <> p_limit THEN
      COMMIT;
      SELECT 'mismatched' AS verdict, v_kind AS kind, v_limit AS line_limit, 0 AS is_wanted;
      LEAVE take;
    END IF;
  END IF;

  IF v_own IS NULL THEN
    SET v_ahead = v_count, v_admitted = v_total + p_weight <= p_limit;
    IF NOT v_admitted AND NOT p_waits THEN
      COMMIT;
      SELECT 'refused' AS verdict, v_first - v_now AS retry_us,
        v_host AS host, v_pid AS pid, v_client AS client, v_note AS note, 0 AS is_wanted;
      LEAVE take;
    END IF;
    SET v_lease = IF(v_admitted, p_ttl_us, p_lease_us);
    IF v_count > 0 THEN
      UPDATE holdfast_places SET is_alone = 0 WHERE resource = p_resource AND seat = 0;
    END IF;
    INSERT INTO holdfast_places (
      resource, seat, id, name, kind, line_limit, weight, joined_at, expires_at, host, pid, client, note, is_alone
    ) VALUES (
      p_resource, v_seat, p_id, p_name, p_kind, p_limit, p_weight, v_now, v_now + v_lease,
      p_host, p_pid, p_client, p_note, v_count = 0
    );
    SET v_fence = LAST_INSERT_ID();
  ELSE
    SELECT weight, expires_at INTO v_weight, v_expires
    FROM holdfast_places WHERE resource = p_resource AND fence = v_own FOR UPDATE;
    -- It was swept away at this moment: the whole step is to be tried again.
    IF v_weight IS NULL THEN
      SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'holdfast: the place is gone';
    END IF;
    SELECT COUNT(*), COALESCE(SUM(weight), 0), MIN(expires_at) INTO v_ahead, v_sum, v_first
    FROM holdfast_places WHERE resource = p_resource AND fence < v_own AND expires_at > 0;
    -- A weight only ever shrinks: that is how a writer becomes a reader without a gap, and it un-admits nobody.
    SET v_admitted = v_sum + LEAST(v_weight, p_weight) <= p_limit, v_fence = v_own, v_lease = v_expires - v_now,
      v_wanted = v_ahead + 1 < v_count AND v_total - v_weight + LEAST(v_weight, p_weight) > p_limit;
    -- Asking is not a heartbeat; but an entry about to run out is worth a write.
    IF v_lease < p_lease_us / 2 THEN SET v_lease = GREATEST(v_lease, IF(v_admitted, p_ttl_us, p_lease_us)); END IF;
    IF v_lease <> v_expires - v_now OR p_weight < v_weight THEN
      UPDATE holdfast_places SET weight = LEAST(weight, p_weight), expires_at = v_now + v_lease
      WHERE resource = p_resource AND fence = v_own;
    END IF;
    IF v_ahead = 0 THEN SET v_host = NULL; END IF;
  END IF;
  COMMIT;

  IF v_admitted THEN
    SELECT 'granted' AS verdict, v_fence AS fence, v_lease AS lease_us, v_wanted AS is_wanted;
  ELSE
    SELECT 'waiting' AS verdict, v_fence AS fence, v_lease AS lease_us, v_ahead AS ahead, v_first - v_now AS retry_us,
      v_host AS host, v_pid AS pid, v_client AS client, v_note AS note, v_wanted AS is_wanted;
  END IF;
END //

-- Extends those of a batch that are alive, and gives their numbers. A renewal never shortens and never revives, and names
-- the place that it means.
CREATE PROCEDURE IF NOT EXISTS holdfast_renew_v1(IN p_batch LONGTEXT CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now BIGINT;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
  UPDATE JSON_TABLE(p_batch, '$[*]' COLUMNS (
    resource VARCHAR(64) PATH '$.resource', fence BIGINT PATH '$.fence', id VARCHAR(64) PATH '$.id',
    lease_us BIGINT PATH '$.lease'
  )) asked
  STRAIGHT_JOIN holdfast_places place FORCE INDEX (fence)
    ON place.fence = asked.fence AND place.resource = UNHEX(asked.resource) AND place.id = CAST(asked.id AS BINARY)
  SET place.expires_at = GREATEST(place.expires_at, v_now + asked.lease_us)
  WHERE place.expires_at > v_now;
  -- Those that were extended, and no others: nobody revives an expired row.
  SELECT asked.n FROM JSON_TABLE(p_batch, '$[*]' COLUMNS (
    n INT PATH '$.n', resource VARCHAR(64) PATH '$.resource', fence BIGINT PATH '$.fence', id VARCHAR(64) PATH '$.id'
  )) asked
  STRAIGHT_JOIN holdfast_places place FORCE INDEX (fence)
    ON place.fence = asked.fence AND place.resource = UNHEX(asked.resource) AND place.id = CAST(asked.id AS BINARY)
  WHERE place.expires_at > v_now;
  COMMIT;
END //

-- Removes a claim, holder or waiter, and says whether it still counted.
CREATE PROCEDURE IF NOT EXISTS holdfast_leave_v1(
  IN p_slot INT, IN p_resource BINARY(32), IN p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin
)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_slot INT;
  DECLARE v_seat, v_expires BIGINT;
  DECLARE v_live TINYINT DEFAULT FALSE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SELECT slot INTO v_slot FROM holdfast_slots WHERE slot = p_slot FOR UPDATE;
  SELECT seat, expires_at INTO v_seat, v_expires
  FROM holdfast_places WHERE resource = p_resource AND id = p_id AND expires_at > 0 FOR UPDATE;
  IF v_seat IS NOT NULL THEN
    SET v_live = v_expires > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    UPDATE holdfast_places SET expires_at = 0 WHERE resource = p_resource AND seat = v_seat;
    CALL holdfast_clear_v1(p_resource, 0);
  END IF;
  COMMIT;
  SELECT v_live AS was_live;
END //

-- Removes those of the next rows that no longer count, and says where they end: null, if that was the end of all.
CREATE PROCEDURE IF NOT EXISTS holdfast_sweep_v1(IN p_fence BIGINT, IN p_count INT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_skip INT DEFAULT p_count - 1;
  DECLARE v_at BIGINT DEFAULT p_fence;
  DECLARE v_end, v_now, v_found BIGINT;
  DECLARE v_resource BINARY(32);
  DECLARE v_slot INT;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  -- Nothing is locked by looking, and each line that has something to remove only for as long as that takes.
  SELECT fence INTO v_end FROM holdfast_places WHERE fence > p_fence ORDER BY fence LIMIT v_skip, 1;
  sweep: LOOP
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), v_found = NULL;
    SELECT fence, resource INTO v_found, v_resource FROM holdfast_places FORCE INDEX (fence)
    WHERE fence > v_at AND fence <= COALESCE(v_end, 9223372036854775807) AND expires_at <= v_now
    ORDER BY fence LIMIT 1;
    IF v_found IS NULL THEN LEAVE sweep; END IF;
    SET v_at = v_found;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT slot INTO v_slot FROM holdfast_slots WHERE slot = ASCII(v_resource) FOR UPDATE;
    CALL holdfast_clear_v1(v_resource, v_now);
    COMMIT;
  END LOOP;
  SELECT v_end AS fence;
END //

DELIMITER ;

SET SESSION sql_mode = @previous_sql_mode;
