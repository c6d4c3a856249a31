/** The statements of the recipe `rows` on PostgreSQL. What they decide is decided in `schema.sql`. */

import type { Claim, Patience, RenewRequest } from '../../core/backend.js'
import { DeadlockError, LockTimeoutError, SerializationError } from '../../core/errors.js'
import { hashOf, withPrefix } from '../sql/identifiers.js'
import {
  type LineTable,
  type Position,
  type ReadLine,
  readLine,
  readTaken,
  type Taken,
  type TakeOptions,
  weightIn,
} from '../sql/line-table.js'
import type { Row, SqlLink, SqlResult, Statement } from '../sql/link.js'

const NOW = '(extract(epoch FROM clock_timestamp()) * 1000000)::bigint'

const TEXTS = {
  // An empty line is taken by this alone: there is no row yet with the seat 0. The lock comes first, and then the number.
  takeEmpty: `WITH lock AS MATERIALIZED (SELECT pg_advisory_xact_lock(1212957766, $1))
    INSERT INTO holdfast_places (resource, id, name, kind, line_limit, weight, expires_at, host, pid, client, note,
      channel, seat, joined_at, fence, is_alone)
    SELECT $2, $3, $4, $5, $6::integer, $7::integer, ${NOW} + $8::bigint, $9, $10::bigint, $11, $12, $13, 0, ${NOW},
      nextval('holdfast_fences'), true
    FROM lock ON CONFLICT DO NOTHING RETURNING fence`,
  take: `SELECT verdict, fence, lease_us, ahead, retry_us, host, pid, client, note, kind, line_limit, is_wanted
    FROM holdfast_take_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
  weight: 'SELECT weight FROM holdfast_places WHERE resource = $1 AND fence = $2 AND id = $3',
  // Only for as long as nobody stands behind it.
  leaveAlone: `DELETE FROM holdfast_places
    WHERE resource = $1 AND seat = 0 AND fence = $2 AND id = $3 AND is_alone AND expires_at > ${NOW}`,
  leave: 'SELECT holdfast_leave_v1($1, $2, $3) AS was_live',
  // A renewal never shortens and never revives, and names the place that it means.
  renew: `WITH asked AS (
      SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::text[], $4::bigint[])
      WITH ORDINALITY AS a (resource, fence, id, lease_us, n)
    )
    UPDATE holdfast_places p SET expires_at = greatest(p.expires_at, ${NOW} + a.lease_us)
    FROM asked a
    WHERE p.resource = a.resource AND p.fence = a.fence AND p.id = a.id AND p.expires_at > ${NOW}
    RETURNING a.n`,
  line: `SELECT fence, id, kind, line_limit, weight, joined_at, expires_at, host, pid, client, note, ${NOW} AS now_us
    FROM holdfast_places WHERE resource = $1 AND ($2::bigint IS NULL OR fence <= $2) AND expires_at > 0 ORDER BY seat`,
  names: `SELECT resource, seat, name FROM holdfast_places
    WHERE (resource, seat) > ($1, $2) ORDER BY resource, seat LIMIT $3`,
  sweep: 'SELECT resource, seat FROM holdfast_sweep_v1($1, $2, $3)',
} as const

type StatementName = keyof typeof TEXTS

const START: Position = { resource: Buffer.alloc(0), number: '0' }
/** How often a step is tried that the database ended for its own reasons. */
const TRIES = 3
const NOTHING: SqlResult = { rows: [], affected: 0 }

export class PostgresLineTable implements LineTable {
  readonly #link: SqlLink
  readonly #statements: Readonly<Record<StatementName, Statement>>

  constructor(link: SqlLink, prefix: string) {
    this.#link = link
    this.#statements = statementsFor(prefix)
  }

  async take(claim: Claim, patience: Patience, { channel, isNew }: TakeOptions): Promise<Taken> {
    const { resource, id, shape, weight, owner, note, ttlMs } = claim
    const { host, pid, client } = owner
    const hash = hashOf(resource)
    const key = hash.readInt32BE(0)
    const ttlUs = microseconds(ttlMs)
    const values = [
      key,
      hash,
      id,
      resource,
      shape.kind,
      shape.limit,
      weight,
      ttlUs,
      host,
      pid,
      client,
      note,
      channel,
    ]
    if (isNew && weight <= shape.limit) {
      const [row] = (await this.#tryAlone('takeEmpty', values)).rows
      if (row !== undefined) {
        const fence = BigInt(Number(row['fence']))
        return { verdict: { kind: 'granted', fence, leaseMs: ttlMs, weight }, isWanted: false }
      }
    }
    const { rows } = await this.#run('take', [...values, microseconds(patience.leaseMs), patience.waitMs > 0])
    return await readTaken(rows[0], claim, 'postgres', async (fence) => {
      return weightIn((await this.#run('weight', [hash, String(fence), id])).rows[0], claim, 'postgres')
    })
  }

  async renew(requests: readonly RenewRequest[]): Promise<ReadonlySet<number>> {
    const { rows } = await this.#run('renew', [
      requests.map(({ claim }) => hashOf(claim.resource)),
      requests.map(({ fence }) => String(fence ?? 0)),
      requests.map(({ claim }) => claim.id),
      requests.map(({ leaseMs }) => microseconds(leaseMs)),
    ])
    return new Set(rows.map((row) => Number(row['n']) - 1))
  }

  async leave(resource: string, id: string, fence: bigint | null): Promise<boolean> {
    const hash = hashOf(resource)
    if (fence !== null) {
      const { affected } = await this.#tryAlone('leaveAlone', [hash, String(fence), id])
      if (affected > 0) return true
    }
    // Somebody stands behind it, or it has run out, or stands in a place that a late request has given it.
    const { rows } = await this.#run('leave', [hash.readInt32BE(0), hash, id])
    return rows[0]?.['was_live'] === true
  }

  async line(resource: string, upTo: bigint | null): Promise<ReadLine> {
    const { rows } = await this.#run('line', [hashOf(resource), upTo === null ? null : String(upTo)])
    return readLine(rows, resource, 'postgres')
  }

  async names(after: Position | null, count: number): Promise<Awaited<ReturnType<LineTable['names']>>> {
    const { resource, number } = after ?? START
    const { rows } = await this.#run('names', [resource, number, count])
    return {
      names: rows.map((row) => String(row['name'])),
      next: rows.length < count ? null : positionIn(rows.at(-1)),
    }
  }

  async sweep(after: Position | null, count: number): Promise<Position | null> {
    const { resource, number } = after ?? START
    const { rows } = await this.#run('sweep', [resource, number, count])
    return positionIn(rows[0])
  }

  /** A short `lock_timeout` of the connection ends such a statement without anything done; the routines have none. */
  async #tryAlone(name: StatementName, values: readonly unknown[]): Promise<SqlResult> {
    try {
      return await this.#run(name, values)
    } catch (error) {
      if (error instanceof LockTimeoutError) return NOTHING
      throw error
    }
  }

  async #run(name: StatementName, values: readonly unknown[]): Promise<SqlResult> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#link.run(this.#statements[name], values)
      } catch (error) {
        const mayTryAgain = error instanceof SerializationError || error instanceof DeadlockError
        if (!mayTryAgain || tries === TRIES) throw error
      }
    }
  }
}

function statementsFor(prefix: string): Readonly<Record<StatementName, Statement>> {
  const statements = Object.entries(TEXTS).map(([name, text]) => {
    return [name, { name: `${prefix}${name}`, text: withPrefix(text, prefix) }]
  })
  return Object.fromEntries(statements) as Record<StatementName, Statement>
}

function positionIn(row: Row | undefined): Position | null {
  const resource = row?.['resource']
  return resource instanceof Buffer ? { resource, number: String(row?.['seat']) } : null
}

function microseconds(ms: number): number {
  return Math.ceil(ms * 1_000)
}
