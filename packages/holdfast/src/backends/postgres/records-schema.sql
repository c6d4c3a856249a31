-- The records of idempotency in PostgreSQL 13 or later. Running it again changes nothing.
--
-- Every key is one row, and what a claim does to it is the rule of core/record-rule.ts. The routines run it where the row
-- is, each in one statement, and by the server's clock. They look without a lock, and write only what is still as they
-- saw it; whoever was slower looks again. So a result that is only read costs no write, and every isolation level will do:
-- at the higher ones the server itself says that somebody was faster, and the whole step is tried again.

CREATE TABLE IF NOT EXISTS holdfast_records (
  -- The hash that stands for scope and key: 32 bytes.
  id bytea PRIMARY KEY,
  -- issued, in-progress, completed, failed or released.
  state text NOT NULL,
  owner text NOT NULL,
  fence bigint NOT NULL,
  attempt integer NOT NULL,
  took_over boolean NOT NULL,
  fingerprint text,
  progress text,
  result text,
  -- By clock_timestamp(). The lease means something only while it is in progress.
  lease_until timestamptz NOT NULL,
  -- From here on the row counts as absent. Null: never.
  expires_at timestamptz,
  created_at timestamptz NOT NULL,
  -- Since 1970: when it is worth looking whether the row can go. It is mostly the same for a claim and its end, and not
  -- touched by renewals, so that these need not touch the index, and stay in their page.
  purge_minute integer
  -- Every row is written at least twice, so each page has room for that.
) WITH (fillfactor = 80);

CREATE INDEX IF NOT EXISTS holdfast_records_purge ON holdfast_records (purge_minute);

-- What a claim finds at a key that has a row. `free`: the key may be claimed. What has run out counts as absent.
-- Fingerprints of different versions cannot be compared.
CREATE OR REPLACE FUNCTION holdfast_records_verdict_v1(
  p_state text, p_held_by text, p_kept text, p_is_leased boolean, p_is_gone boolean,
  p_owner text, p_fingerprint text, p_take_over boolean, p_only_issued boolean
) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN p_is_gone THEN CASE WHEN p_only_issued THEN 'missing' ELSE 'free' END
    WHEN p_kept <> p_fingerprint AND left(p_kept, 3) = left(p_fingerprint, 3) THEN 'mismatch'
    WHEN p_state IN ('completed', 'failed') THEN p_state
    WHEN p_state <> 'in-progress' THEN 'free'
    WHEN p_is_leased THEN CASE WHEN p_held_by = p_owner THEN 'claimed' ELSE 'in-progress' END
    WHEN p_take_over THEN 'free'
    ELSE 'abandoned'
  END
$$;

-- The numbers that belong to an answer; times in microseconds.
CREATE OR REPLACE FUNCTION holdfast_records_detail_v1(
  p_attempt integer, p_took_over boolean, p_lease interval, p_created_at timestamptz
) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT concat_ws(' ', p_attempt, p_took_over::integer, ceil(extract(epoch FROM p_lease) * 1000000)::bigint,
    (extract(epoch FROM p_created_at) * 1000000)::bigint)
$$;

-- Claims a key that has a row, or answers with what is there. Times are in microseconds.
CREATE OR REPLACE FUNCTION holdfast_records_claim_v1(
  p_id bytea, p_owner text, p_fingerprint text, p_lease_us bigint, p_retention_us bigint,
  p_take_over boolean, p_only_issued boolean,
  OUT verdict text, OUT fence bigint, OUT detail text, OUT content text
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  v_row holdfast_records%ROWTYPE;
  v_now timestamptz;
  v_gone boolean;
BEGIN
  LOOP
    v_now := clock_timestamp();
    SELECT * INTO v_row FROM holdfast_records r WHERE r.id = p_id;
    IF NOT FOUND THEN
      IF p_only_issued THEN
        verdict := 'missing';
        RETURN;
      END IF;
      v_now := clock_timestamp();
      fence := (extract(epoch FROM v_now) * 1000000)::bigint;
      INSERT INTO holdfast_records (
        id, state, owner, fence, attempt, took_over, fingerprint, lease_until, expires_at, created_at, purge_minute
      ) VALUES (
        p_id, 'in-progress', p_owner, fence, 1, false, p_fingerprint, v_now + p_lease_us * interval '1 microsecond',
        v_now + (p_lease_us + p_retention_us) * interval '1 microsecond', v_now, (fence + p_retention_us) / 60000000
      )
      ON CONFLICT DO NOTHING;
      CONTINUE WHEN NOT FOUND;
      verdict := 'first';
      RETURN;
    END IF;

    v_gone := v_row.expires_at IS NOT NULL AND v_row.expires_at <= v_now;
    verdict := holdfast_records_verdict_v1(
      v_row.state, v_row.owner, v_row.fingerprint, v_row.lease_until > v_now, v_gone,
      p_owner, p_fingerprint, p_take_over, p_only_issued
    );
    IF verdict <> 'free' THEN
      fence := v_row.fence;
      detail := holdfast_records_detail_v1(v_row.attempt, v_row.took_over, v_row.lease_until - v_now, v_row.created_at);
      content := CASE verdict WHEN 'claimed' THEN v_row.progress WHEN v_row.state THEN v_row.result END;
      RETURN;
    END IF;

    UPDATE holdfast_records r SET
      state = 'in-progress',
      owner = p_owner,
      fence = greatest(r.fence + 1, (extract(epoch FROM v_now) * 1000000)::bigint),
      attempt = CASE WHEN v_gone THEN 1 ELSE r.attempt + 1 END,
      took_over = r.state = 'in-progress' AND NOT v_gone,
      fingerprint = CASE WHEN v_gone THEN p_fingerprint ELSE coalesce(r.fingerprint, p_fingerprint) END,
      progress = CASE WHEN v_gone THEN NULL ELSE r.progress END,
      result = NULL,
      lease_until = v_now + p_lease_us * interval '1 microsecond',
      expires_at = v_now + (p_lease_us + p_retention_us) * interval '1 microsecond',
      created_at = CASE WHEN v_gone THEN v_now ELSE r.created_at END,
      purge_minute = ((extract(epoch FROM v_now) * 1000000)::bigint + p_retention_us) / 60000000
    -- Whatever changes a row changes one of these.
    WHERE r.id = p_id AND r.fence = v_row.fence AND r.state = v_row.state AND r.lease_until = v_row.lease_until
      AND r.expires_at IS NOT DISTINCT FROM v_row.expires_at
    RETURNING r.fence, r.progress,
      holdfast_records_detail_v1(r.attempt, r.took_over, p_lease_us * interval '1 microsecond', r.created_at)
    INTO fence, content, detail;
    CONTINUE WHEN NOT FOUND;
    verdict := 'claimed';
    RETURN;
  END LOOP;
END $$;

-- Uses a token up. The first showing changes its state, and each one is counted where that is asked for.
CREATE OR REPLACE FUNCTION holdfast_records_spend_v1(p_id bytea, p_count boolean, OUT verdict text, OUT uses integer)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
  v_state text;
BEGIN
  SELECT r.state, r.attempt INTO v_state, uses FROM holdfast_records r
  WHERE r.id = p_id AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp()) FOR UPDATE;
  IF NOT FOUND THEN
    verdict := 'missing';
    uses := 0;
    RETURN;
  END IF;
  verdict := CASE WHEN v_state = 'issued' THEN 'spent' ELSE 'used' END;
  IF verdict = 'used' AND NOT p_count THEN RETURN; END IF;
  uses := uses + 1;
  UPDATE holdfast_records r SET state = CASE WHEN v_state = 'issued' THEN 'completed' ELSE v_state END, attempt = uses
  WHERE r.id = p_id;
END $$;
