/** Records in PostgreSQL, over a ready pool of `pg`. What a claim decides is decided in `records-schema.sql`. */

import { InvalidInputError, UnsupportedError } from '../../core/errors.js'
import { checkKeys } from '../../core/options.js'
import type { RecordStore, RecordTraits, RenewAsk } from '../../core/records.js'
import { recordTableOf, withTable } from '../sql/identifiers.js'
import type { Row, SqlLink, Statement } from '../sql/link.js'
import {
  idOf,
  microseconds,
  microsecondsOrNull,
  type RecordStep,
  type RecordTable,
  type RecordValue,
  SqlRecords,
  statementsFor,
} from '../sql/records.js'
import type { PgClient, PgPool } from './client.js'
import { pgLink } from './link.js'
import { source } from './records-schema.sql'
import { migrateText } from './schema.js'

export interface PostgresRecordsOptions {
  /** Where the records are kept, after a schema if need be. Default `holdfast_records`, or `records` behind the prefix. */
  readonly table?: string | undefined
  /** What the names of Holdfast's tables and routines begin with. Default `holdfast_`. */
  readonly tablePrefix?: string | undefined
  /** Whether statements are prepared by name. Default true; give false for a pooler that does not bear it. */
  readonly prepare?: boolean | undefined
}

const KEYS: readonly string[] = ['table', 'tablePrefix', 'prepare']

const TRAITS: RecordTraits = {
  keeps: 'durable',
  fencing: 'strict',
  bytesMax: 16 * 1024 * 1024,
  leaseMinMs: 50,
  leaseMaxMs: 2 ** 31 - 1,
  retentionMaxMs: null,
}

const LIVE = '(expires_at IS NULL OR expires_at > clock_timestamp())'
const US = "interval '1 microsecond'"
const microsecondsOf = (time: string): string => `(extract(epoch FROM ${time}) * 1000000)::bigint`

/** Claims a key that has no row, or tells what is there, without a routine. No row: somebody was faster. */
const LOOK = `WITH seen AS MATERIALIZED (
    SELECT state, owner, fence, attempt, took_over, fingerprint, progress, result, created_at,
      lease_until - clock_timestamp() AS lease, coalesce(expires_at <= clock_timestamp(), false) AS is_gone
    FROM holdfast_records WHERE id = $1
  ), made AS (
    INSERT INTO holdfast_records (
      id, state, owner, fence, attempt, took_over, fingerprint, lease_until, expires_at, created_at, purge_minute
    ) SELECT $1, 'in-progress', $2, ${microsecondsOf('now')}, 1, false, $3, now + $4::bigint * ${US},
      now + ($4::bigint + $5::bigint) * ${US}, now, (${microsecondsOf('now')} + $5::bigint) / 60000000
    FROM (SELECT clock_timestamp() AS now OFFSET 0) clock WHERE NOT EXISTS (SELECT 1 FROM seen)
    ON CONFLICT DO NOTHING RETURNING fence
  )
  SELECT 'first' AS verdict, fence, NULL AS detail, NULL AS content FROM made
  UNION ALL
  SELECT holdfast_records_verdict_v1(
      state, owner, fingerprint, lease > interval '0', is_gone, $2, $3, $6::boolean, false
    ), fence, holdfast_records_detail_v1(attempt, took_over, lease, created_at),
    CASE WHEN state IN ('completed', 'failed') THEN result WHEN owner = $2 THEN progress END
  FROM seen`

const TEXTS = {
  look: LOOK,
  claim: `SELECT verdict, fence, detail, content FROM holdfast_records_claim_v1($1, $2, $3, $4, $5, $6, $7)`,
  finish: `UPDATE holdfast_records SET state = $4, result = $5, lease_until = clock_timestamp(),
      expires_at = clock_timestamp() + $6::bigint * ${US},
      purge_minute = (${microsecondsOf('clock_timestamp()')} + $6::bigint) / 60000000
    WHERE id = $1 AND owner = $2 AND fence = $3 AND state = 'in-progress' AND ${LIVE}`,
  // A statement of its own, which sees what the one before had to wait for.
  ended: `SELECT true AS done FROM holdfast_records
    WHERE id = $1 AND owner = $2 AND fence = $3 AND state = $4 AND ${LIVE}`,
  // A renewal never shortens and never revives, and what does not extend the lease leaves the end of the record alone.
  renew: `WITH asked AS (
      SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[])
      WITH ORDINALITY AS a (id, fence, owner, lease_us, retention_us, n)
    )
    UPDATE holdfast_records r SET
      lease_until = greatest(r.lease_until, clock_timestamp() + a.lease_us * ${US}),
      expires_at = CASE WHEN clock_timestamp() + a.lease_us * ${US} > r.lease_until
        THEN clock_timestamp() + (a.lease_us + a.retention_us) * ${US} ELSE r.expires_at END
    FROM asked a
    WHERE r.id = a.id AND r.fence = a.fence AND r.owner = a.owner AND r.state = 'in-progress'
      AND r.lease_until > clock_timestamp() AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())
    RETURNING a.n`,
  save: `UPDATE holdfast_records SET progress = $4
    WHERE id = $1 AND owner = $2 AND fence = $3 AND state = 'in-progress' AND ${LIVE} RETURNING true AS done`,
  read: `SELECT state, owner, fence, attempt, took_over, fingerprint, progress, result,
      ceil(extract(epoch FROM lease_until - clock_timestamp()) * 1000000)::bigint AS lease_us,
      ${microsecondsOf('created_at')} AS created_us
    FROM holdfast_records WHERE id = $1 AND ${LIVE}`,
  // What has run out counts as absent; only its fence matters.
  issue: `INSERT INTO holdfast_records AS r
      (id, state, owner, fence, attempt, took_over, lease_until, expires_at, created_at, purge_minute)
    SELECT $1, 'issued', '', ${microsecondsOf('now')}, 0, false, now, now + $2::bigint * ${US}, now,
      (${microsecondsOf('now')} + $2::bigint) / 60000000
    FROM (SELECT clock_timestamp() AS now OFFSET 0) clock
    ON CONFLICT (id) DO UPDATE SET state = 'issued', owner = '', fence = greatest(r.fence + 1, excluded.fence), attempt = 0,
      took_over = false, fingerprint = NULL, progress = NULL, result = NULL, lease_until = excluded.lease_until,
      expires_at = excluded.expires_at, created_at = excluded.created_at, purge_minute = excluded.purge_minute
    WHERE r.expires_at <= clock_timestamp()
    RETURNING true AS done`,
  spend: 'SELECT verdict, uses FROM holdfast_records_spend_v1($1, $2)',
  forget: 'DELETE FROM holdfast_records WHERE id = $1 RETURNING true AS done',
  // Whatever is in use at this moment is left for the next time, so this never waits for anybody.
  purge: `WITH gone AS (
      SELECT id FROM holdfast_records
      WHERE purge_minute <= (${microsecondsOf('clock_timestamp()')} / 60000000)::integer
        AND expires_at <= clock_timestamp()
      ORDER BY purge_minute LIMIT $1 FOR UPDATE SKIP LOCKED
    )
    DELETE FROM holdfast_records r USING gone WHERE r.id = gone.id AND r.expires_at <= clock_timestamp() RETURNING 1 AS n`,
} as const

const ENCODING: Statement = {
  name: 'holdfast_encoding',
  text: "SELECT current_setting('server_encoding') AS encoding",
}

/** Idempotency records in a table of PostgreSQL. Ending the pool stays with you. */
export function postgresRecords<Client extends PgClient>(
  pool: PgPool<Client>,
  options: PostgresRecordsOptions = {},
): RecordStore {
  checkKeys(options, KEYS)
  if (typeof pool?.connect !== 'function') throw new InvalidInputError('pool', 'a ready `Pool` of `pg`', pool)
  return recordsOver(pgLink(pool, { prepare: options.prepare ?? true, end: async () => {} }), options)
}

/** The same over whatever leads to PostgreSQL. */
export function recordsOver(link: SqlLink, options: PostgresRecordsOptions): RecordStore {
  checkKeys(options, KEYS)
  return new SqlRecords(new PostgresRecordTable(link, recordTableOf(options)))
}

class PostgresRecordTable implements RecordTable {
  readonly name = 'postgres'
  readonly traits = TRAITS
  readonly schema: string
  readonly #link: SqlLink
  readonly #statements: Readonly<Record<keyof typeof TEXTS, Statement>>

  constructor(link: SqlLink, table: string) {
    this.#link = link
    this.#statements = statementsFor(TEXTS, table)
    this.schema = schemaOfRecords(table)
  }

  /** Most claims need no routine: nothing is there, or something that is only to be told. */
  async run(step: RecordStep, values: readonly RecordValue[]): Promise<readonly Row[]> {
    const sent = values.map(asSent)
    if (step === 'claim' && values.at(-1) === false) {
      const { rows } = await this.#link.run(this.#statements.look, sent.slice(0, -1))
      // Without a row, somebody was faster than this could see.
      if (rows[0] !== undefined && rows[0]['verdict'] !== 'free') return rows
    }
    return (await this.#link.run(this.#statements[step], sent)).rows
  }

  async finish(values: readonly RecordValue[]): Promise<boolean> {
    const sent = values.map(asSent)
    if ((await this.#link.run(this.#statements.finish, sent)).affected === 1) return true
    // Its owner may be asking for the second time.
    return (await this.#link.run(this.#statements.ended, sent.slice(0, 4))).rows.length > 0
  }

  async renew(asks: readonly RenewAsk[]): Promise<ReadonlySet<number>> {
    const { rows } = await this.#link.run(this.#statements.renew, [
      asks.map(({ key }) => idOf(key)),
      asks.map(({ fence }) => String(fence)),
      asks.map(({ owner }) => owner),
      asks.map(({ leaseMs }) => microseconds(leaseMs)),
      asks.map(({ retentionMs }) => microsecondsOrNull(retentionMs)),
    ])
    return new Set(rows.map((row) => Number(row['n']) - 1))
  }

  async purge(max: number): Promise<number> {
    return (await this.#link.run(this.#statements.purge, [max])).affected
  }

  /** A result that the database has no letters for could not be stored when the work is done already. */
  async greet(): Promise<void> {
    const encoding = (await this.#link.run(ENCODING)).rows[0]?.['encoding']
    if (encoding === 'UTF8') return
    throw new UnsupportedError('The PostgreSQL database is not in UTF-8. Keep the records in one that is.', {
      backend: this.name,
    })
  }

  async migrate(): Promise<void> {
    await this.#link.script(migrateText(this.schema))
  }

  async close(): Promise<void> {
    await this.#link.close()
  }
}

/** The statement that makes an index names it without the schema, which is the one of the table. */
function schemaOfRecords(table: string): string {
  const making = 'CREATE INDEX IF NOT EXISTS '
  return withTable(source, table).replaceAll(
    `${making}${table}`,
    `${making}${table.slice(table.indexOf('.') + 1)}`,
  )
}

function asSent(value: RecordValue): unknown {
  return typeof value === 'bigint' ? String(value) : value
}
