-- The tables and routines of Holdfast in PostgreSQL 13 or later. Running it again changes nothing.
--
-- Every claim is one row. The rows of a resource in the order of their seats are its line, and the rule is the one of
-- core/line.ts: a claim is admitted when the weights up to and including its own fit the limit. The routines run it where
-- the rows are, under a lock of the resource that lasts as long as one statement, and by the server's clock.
--
-- A line that has any row has one with the seat 0. So one INSERT at seat 0 finds out whether the line is empty, and takes
-- the lock if it is, without a routine; and one DELETE gives it back for as long as the row is marked as alone. Whoever
-- joins behind it takes away that mark first. From then on it is not deleted before the line is empty: when its claim
-- ends, it stays as a row that expired long ago, at 0, and counts for nothing.

CREATE TABLE IF NOT EXISTS holdfast_places (
  -- The SHA-256 of the name, which is the same for equal names only, whatever the collation.
  resource bytea NOT NULL,
  seat bigint NOT NULL,
  fence bigint NOT NULL,
  id text NOT NULL,
  name text NOT NULL,
  kind text NOT NULL,
  line_limit integer NOT NULL CHECK (line_limit >= 1),
  weight integer NOT NULL CHECK (weight >= 1),
  -- Both in microseconds since 1970 by clock_timestamp().
  joined_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  host text NOT NULL,
  pid bigint NOT NULL,
  client text NOT NULL,
  note text,
  -- Where a grant is pushed to; empty for a client that asks by itself.
  channel text NOT NULL,
  is_alone boolean NOT NULL,
  PRIMARY KEY (resource, seat)
  -- Room in each page lets a renewal stay in its page, and rows that come and go all the time want to be cleared away.
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The rows that the recipe `for-update` locks: one for each name, made before it is locked, so that it is never a gap.
CREATE TABLE IF NOT EXISTS holdfast_rows (
  resource bytea PRIMARY KEY,
  name text NOT NULL
);

-- Fences come from here. It is never deleted, and a number that was given out is never given out again, even if the
-- transaction that drew it rolls back. A fence is only ever drawn under the lock of the resource, so those of a resource
-- grow in the order in which it was taken.
CREATE SEQUENCE IF NOT EXISTS holdfast_fences;

-- Removes what had expired at the given time. The caller has the lock of the resource and of its row at seat 0. A row that
-- cannot be locked is being renewed at this moment, so it stays.
CREATE OR REPLACE FUNCTION holdfast_clear_v1(p_resource bytea, p_now bigint)
RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
BEGIN
  DELETE FROM holdfast_places p USING (
    SELECT e.seat FROM holdfast_places e
    WHERE e.resource = p_resource AND e.seat > 0 AND e.expires_at <= p_now FOR UPDATE SKIP LOCKED
  ) expired WHERE p.resource = p_resource AND p.seat = expired.seat;
  IF EXISTS (SELECT 1 FROM holdfast_places p WHERE p.resource = p_resource AND p.seat > 0) THEN
    UPDATE holdfast_places p SET expires_at = 0
    WHERE p.resource = p_resource AND p.seat = 0 AND p.expires_at <= p_now AND p.expires_at > 0;
  ELSE
    DELETE FROM holdfast_places p WHERE p.resource = p_resource AND p.seat = 0 AND p.expires_at <= p_now;
  END IF;
END $$;

-- The claim at this seat waits. If everybody before it holds, they are told that they are wanted.
CREATE OR REPLACE FUNCTION holdfast_want_v1(p_resource bytea, p_seat bigint, p_limit integer, p_now bigint)
RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
  v_row record;
BEGIN
  IF p_limit < (SELECT sum(p.weight) FROM holdfast_places p
                WHERE p.resource = p_resource AND p.seat < p_seat AND p.expires_at > p_now) THEN
    RETURN;
  END IF;
  FOR v_row IN SELECT p.fence, p.channel FROM holdfast_places p
               WHERE p.resource = p_resource AND p.seat < p_seat AND p.channel <> '' AND p.expires_at > p_now LOOP
    PERFORM pg_notify(v_row.channel, 'w ' || v_row.fence);
  END LOOP;
END $$;

-- A claim at this seat has given up this much weight. Removes what has expired, and tells those behind that are admitted
-- by all that. The caller has the lock of the resource and of its row at seat 0.
CREATE OR REPLACE FUNCTION holdfast_admit_v1(p_resource bytea, p_seat bigint, p_freed bigint, p_now bigint)
RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
  v_row record;
  v_gone bigint[];
BEGIN
  -- Whoever is passed over is removed, or it would count again when the clock is set back, before the one that was
  -- admitted in its stead. A row that cannot be locked is being renewed at this moment, so it counts.
  SELECT coalesce(array_agg(e.seat), '{}') INTO v_gone FROM (
    SELECT p.seat FROM holdfast_places p
    WHERE p.resource = p_resource AND p.expires_at > 0 AND p.expires_at <= p_now FOR UPDATE SKIP LOCKED
  ) e;
  -- What has run out and is still stored counts for who was admitted before, and not for who is now: it may be that
  -- nobody was told when it ran out.
  FOR v_row IN
    SELECT l.fence, l.channel, l.total > l.line_limit AS is_behind,
      bool_or(l.total > l.line_limit) OVER () AS is_wanted
    FROM (
      SELECT p.seat, p.fence, p.channel, p.line_limit,
        sum(p.weight) FILTER (WHERE p.seat <> ALL (v_gone)) OVER (ORDER BY p.seat) AS total,
        sum(p.weight) OVER (ORDER BY p.seat) + CASE WHEN p.seat > p_seat THEN p_freed ELSE 0 END AS total_before
      FROM holdfast_places p WHERE p.resource = p_resource AND p.expires_at > 0
    ) l
    WHERE l.seat <> ALL (v_gone) AND l.total_before > l.line_limit
    ORDER BY l.seat
  LOOP
    EXIT WHEN v_row.is_behind;
    IF v_row.channel <> '' THEN
      PERFORM pg_notify(v_row.channel, 'g ' || v_row.fence || CASE WHEN v_row.is_wanted THEN ' 1' ELSE ' 0' END);
    END IF;
  END LOOP;
  PERFORM holdfast_clear_v1(p_resource, p_now);
END $$;

-- Takes a place for a claim, or answers for the place that it has. p_key stands for the resource in the lock.
CREATE OR REPLACE FUNCTION holdfast_take_v1(
  p_key integer, p_resource bytea, p_id text, p_name text, p_kind text, p_limit integer, p_weight integer,
  p_ttl_us bigint, p_host text, p_pid bigint, p_client text, p_note text, p_channel text,
  p_lease_us bigint, p_waits boolean,
  OUT verdict text, OUT fence bigint, OUT lease_us bigint, OUT ahead integer, OUT retry_us bigint,
  OUT host text, OUT pid bigint, OUT client text, OUT note text,
  OUT kind text, OUT line_limit integer, OUT is_wanted boolean
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET lock_timeout = 0 AS $$
#variable_conflict use_column
DECLARE
  v_now bigint;
  v_row holdfast_places%ROWTYPE;
  v_own holdfast_places%ROWTYPE;
  v_cleared boolean := false;
  v_seat bigint;
  -- Of the claims before this one, or of all if it has no place yet.
  v_sum bigint;
  -- Of all up to where the line was looked at.
  v_behind bigint;
  v_left bigint;
  v_asked bigint;
  v_admitted boolean;
BEGIN
  -- What another transaction has just committed must be seen after waiting for it.
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'holdfast: the isolation level must be read committed' USING ERRCODE = 'HF001';
  END IF;
  -- Until the end of the transaction, which is this statement. Two names that share a key only wait for each other.
  PERFORM pg_advisory_xact_lock(1212957766, p_key);
  -- Who is alone gives its place back without that lock, but not while this row is locked.
  PERFORM 1 FROM holdfast_places p WHERE p.resource = p_resource AND p.seat = 0 FOR UPDATE;
  v_now := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  LOOP
    is_wanted := false;
    v_sum := 0;
    v_seat := 0;
    ahead := 0;
    retry_us := NULL;
    host := NULL;
    v_own.fence := NULL;
    v_row := NULL;
    FOR v_row IN SELECT * FROM holdfast_places p WHERE p.resource = p_resource ORDER BY p.seat LOOP
      v_seat := v_row.seat + 1;
      CONTINUE WHEN v_row.expires_at = 0;
      -- An expired row is absent, and is removed before anything is decided. What is then still there counts, because it
      -- is being renewed: whoever waits asks again soon.
      EXIT WHEN v_row.expires_at <= v_now AND NOT v_cleared;
      IF ahead = 0 AND v_own.fence IS NULL AND (v_row.kind <> p_kind OR v_row.line_limit <> p_limit) THEN
        verdict := 'mismatched';
        kind := v_row.kind;
        line_limit := v_row.line_limit;
        RETURN;
      END IF;
      IF v_own.fence IS NOT NULL THEN
        v_behind := v_behind + v_row.weight;
        is_wanted := v_behind > p_limit;
        EXIT WHEN is_wanted;
      ELSIF v_row.id = p_id THEN
        v_own := v_row;
        v_behind := v_sum + least(v_row.weight, p_weight);
      ELSE
        IF ahead = 0 THEN
          host := v_row.host;
          pid := v_row.pid;
          client := v_row.client;
          note := v_row.note;
        END IF;
        v_sum := v_sum + v_row.weight;
        ahead := ahead + 1;
        retry_us := least(retry_us, v_row.expires_at - v_now);
      END IF;
    END LOOP;
    EXIT WHEN v_cleared OR v_row.expires_at IS NULL OR v_row.expires_at = 0 OR v_row.expires_at > v_now;
    PERFORM holdfast_clear_v1(p_resource, v_now);
    v_cleared := true;
  END LOOP;

  IF v_own.fence IS NULL THEN
    v_admitted := v_sum + p_weight <= p_limit;
    IF NOT v_admitted AND NOT p_waits THEN
      verdict := 'refused';
      RETURN;
    END IF;
    fence := nextval('holdfast_fences');
    lease_us := CASE WHEN v_admitted THEN p_ttl_us ELSE p_lease_us END;
    IF v_seat > 0 THEN
      UPDATE holdfast_places p SET is_alone = false WHERE p.resource = p_resource AND p.seat = 0 AND p.is_alone;
    END IF;
    INSERT INTO holdfast_places VALUES (
      p_resource, v_seat, fence, p_id, p_name, p_kind, p_limit, p_weight, v_now, v_now + lease_us,
      p_host, p_pid, p_client, p_note, p_channel, v_seat = 0
    );
    IF NOT v_admitted THEN PERFORM holdfast_want_v1(p_resource, v_seat, p_limit, v_now); END IF;
  ELSE
    -- A weight only ever shrinks: that is how a writer becomes a reader without a gap, and it un-admits nobody.
    v_admitted := v_sum + least(v_own.weight, p_weight) <= p_limit;
    fence := v_own.fence;
    v_left := v_own.expires_at - v_now;
    v_asked := CASE WHEN v_admitted THEN p_ttl_us ELSE p_lease_us END;
    -- Asking is not a heartbeat; but an entry about to run out is worth a write.
    lease_us := CASE WHEN v_left < p_lease_us / 2 THEN greatest(v_asked, v_left) ELSE v_left END;
    IF p_weight < v_own.weight OR lease_us <> v_left THEN
      UPDATE holdfast_places p
      SET weight = least(v_own.weight, p_weight), expires_at = greatest(p.expires_at, v_now + lease_us)
      WHERE p.resource = p_resource AND p.seat = v_own.seat AND p.fence = v_own.fence;
      -- It had run out, and somebody was about to remove it: the whole step is to be tried again.
      IF NOT FOUND THEN RAISE EXCEPTION 'holdfast: the place is gone' USING ERRCODE = '40001'; END IF;
      IF p_weight < v_own.weight THEN
        PERFORM holdfast_admit_v1(p_resource, v_own.seat, v_own.weight - p_weight, v_now);
      END IF;
    END IF;
  END IF;
  verdict := CASE WHEN v_admitted THEN 'granted' ELSE 'waiting' END;
END $$;

-- Removes a claim, holder or waiter, and says whether it still counted.
CREATE OR REPLACE FUNCTION holdfast_leave_v1(p_key integer, p_resource bytea, p_id text)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET lock_timeout = 0 AS $$
DECLARE
  v_now bigint;
  v_row record;
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'holdfast: the isolation level must be read committed' USING ERRCODE = 'HF001';
  END IF;
  PERFORM pg_advisory_xact_lock(1212957766, p_key);
  PERFORM 1 FROM holdfast_places p WHERE p.resource = p_resource AND p.seat = 0 FOR UPDATE;
  SELECT p.seat, p.weight, p.expires_at INTO v_row FROM holdfast_places p
  WHERE p.resource = p_resource AND p.id = p_id AND p.expires_at > 0 FOR UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  v_now := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  IF v_row.seat = 0 THEN
    UPDATE holdfast_places p SET expires_at = 0 WHERE p.resource = p_resource AND p.seat = 0;
  ELSE
    DELETE FROM holdfast_places p WHERE p.resource = p_resource AND p.seat = v_row.seat;
  END IF;
  PERFORM holdfast_admit_v1(p_resource, v_row.seat, v_row.weight, v_now);
  RETURN v_row.expires_at > v_now;
END $$;

-- Removes those of the next rows that no longer count, and gives where they end: null, if that was the end of all.
CREATE OR REPLACE FUNCTION holdfast_sweep_v1(
  p_resource bytea, p_seat bigint, p_count integer, OUT resource bytea, OUT seat bigint
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  v_now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  v_row record;
  v_seen integer := 0;
BEGIN
  FOR v_row IN SELECT p.resource, p.seat, p.expires_at FROM holdfast_places p
               WHERE (p.resource, p.seat) > (p_resource, p_seat) ORDER BY p.resource, p.seat LIMIT p_count LOOP
    v_seen := v_seen + 1;
    resource := v_row.resource;
    seat := v_row.seat;
    CONTINUE WHEN v_row.expires_at = 0 OR v_row.expires_at > v_now;
    -- Whatever is in use at this moment is left to whoever uses it, so this never waits for anybody.
    CONTINUE WHEN NOT pg_try_advisory_xact_lock(1212957766, ('x' || encode(substr(v_row.resource, 1, 4), 'hex'))::bit(32)::integer);
    PERFORM 1 FROM holdfast_places p WHERE p.resource = v_row.resource AND p.seat = 0 FOR UPDATE SKIP LOCKED;
    IF FOUND THEN PERFORM holdfast_clear_v1(v_row.resource, v_now); END IF;
  END LOOP;
  IF v_seen < p_count THEN
    resource := NULL;
    seat := NULL;
  END IF;
END $$;
