/** The statements of the recipe `rows` on MySQL and MariaDB. What they decide is decided in `schema.sql`. */

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

/** Of the statement's beginning, and before any row is read. See `schema.sql` for why it is this function. */
const NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// Texts go to the server and come back as bytes, so that the character set of the connection does not matter. A number of
// 64 bits goes as text, because the driver sends numbers as floating point. A row that expired at 0 is nobody's.
const TEXTS = {
  // An empty line is taken by this alone: there is no row yet with the seat 0, and the slot is locked, as in the routine.
  takeEmpty: `INSERT IGNORE INTO holdfast_places (
      resource, id, name, kind, line_limit, weight, expires_at, host, pid, client, note, seat, joined_at, is_alone
    ) SELECT ?, ?, ?, ?, ?, ?, ${NOW} + ?, ?, ?, ?, ?, 0, ${NOW}, 1 FROM holdfast_slots WHERE slot = ? FOR UPDATE`,
  take: 'CALL holdfast_take_v1(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
  weight: 'SELECT weight FROM holdfast_places WHERE resource = ? AND fence = CAST(? AS SIGNED) AND id = ?',
  // Only for as long as nobody stands behind it.
  leaveAlone: `DELETE FROM holdfast_places
    WHERE resource = ? AND seat = 0 AND fence = CAST(? AS SIGNED) AND id = ? AND is_alone = 1 AND expires_at > ${NOW}`,
  leave: 'CALL holdfast_leave_v1(?, ?, ?)',
  renew: 'CALL holdfast_renew_v1(?)',
  line: `SELECT fence, id, kind, line_limit, weight, joined_at, expires_at, CAST(host AS BINARY) AS host, pid, client,
      CAST(note AS BINARY) AS note, ${NOW} AS now_us
    FROM holdfast_places FORCE INDEX (PRIMARY)
    WHERE resource = ? AND fence <= CAST(? AS SIGNED) AND expires_at > 0 ORDER BY seat`,
  names: `SELECT resource, fence, CAST(name AS BINARY) AS name FROM holdfast_places FORCE INDEX (fence)
    WHERE fence > CAST(? AS SIGNED) AND expires_at > 0 ORDER BY fence LIMIT ?`,
  sweep: 'CALL holdfast_sweep_v1(?, ?)',
} as const

type StatementName = keyof typeof TEXTS

const START = '0'
const LAST_FENCE = String(2n ** 63n - 1n)
/** How often a step is tried that the database ended for its own reasons. Every step may be done twice. */
const TRIES = 3

export class MysqlLineTable implements LineTable {
  readonly #link: SqlLink
  readonly #statements: Readonly<Record<StatementName, Statement>>

  constructor(link: SqlLink, prefix: string) {
    this.#link = link
    this.#statements = statementsFor(prefix)
  }

  async take(claim: Claim, patience: Patience, { isNew }: TakeOptions): Promise<Taken> {
    const { resource, id, shape, weight, owner, note, ttlMs } = claim
    const hash = hashOf(resource)
    const values = [
      hash,
      id,
      Buffer.from(resource),
      shape.kind,
      shape.limit,
      weight,
      microseconds(ttlMs),
      Buffer.from(owner.host),
      owner.pid,
      owner.client,
      note === null ? null : Buffer.from(note),
      hash[0],
    ]
    if (isNew && weight <= shape.limit) {
      const { affected, lastId = 0 } = await this.#run('takeEmpty', values)
      const verdict = { kind: 'granted', fence: BigInt(lastId), leaseMs: ttlMs, weight } as const
      if (affected === 1) return { verdict, isWanted: false }
    }
    const more = [microseconds(patience.leaseMs), patience.waitMs > 0 ? 1 : 0]
    const { rows } = await this.#run('take', [...values, ...more])
    return await readTaken(textsIn(rows[0]), claim, 'mysql', async (fence) => {
      return weightIn((await this.#run('weight', [hash, String(fence), id])).rows[0], claim, 'mysql')
    })
  }

  async renew(requests: readonly RenewRequest[]): Promise<ReadonlySet<number>> {
    const asked = requests.map(({ claim, fence, leaseMs }, n) => {
      const lease = microseconds(leaseMs)
      return {
        n,
        resource: hashOf(claim.resource).toString('hex'),
        fence: Number(fence ?? 0),
        id: claim.id,
        lease,
      }
    })
    // Whoever locks several rows locks them in the order of the table, so that no two wait for each other.
    asked.sort((a, b) => (a.resource === b.resource ? a.fence - b.fence : a.resource < b.resource ? -1 : 1))
    const { rows } = await this.#run('renew', [JSON.stringify(asked)])
    return new Set(rows.map((row) => Number(row['n'])))
  }

  async leave(resource: string, id: string, fence: bigint | null): Promise<boolean> {
    const hash = hashOf(resource)
    if (fence !== null) {
      const { affected } = await this.#run('leaveAlone', [hash, String(fence), id])
      if (affected > 0) return true
    }
    // Somebody stands behind it, or it has run out, or stands in a place that a late request has given it.
    const { rows } = await this.#run('leave', [hash[0], hash, id])
    return Number(rows[0]?.['was_live']) === 1
  }

  async line(resource: string, upTo: bigint | null): Promise<ReadLine> {
    const { rows } = await this.#run('line', [hashOf(resource), upTo === null ? LAST_FENCE : String(upTo)])
    return readLine(rows.map(textsIn), resource, 'mysql')
  }

  async names(after: Position | null, count: number): Promise<Awaited<ReturnType<LineTable['names']>>> {
    const { rows } = await this.#run('names', [after?.number ?? START, String(count)])
    return {
      names: rows.map((row) => String(row['name'])),
      next: rows.length < count ? null : positionAt(rows.at(-1)),
    }
  }

  async sweep(after: Position | null, count: number): Promise<Position | null> {
    const { rows } = await this.#run('sweep', [after?.number ?? START, count])
    return positionAt(rows[0])
  }

  async #run(name: StatementName, values: readonly unknown[]): Promise<SqlResult> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#link.run(this.#statements[name], values)
      } catch (error) {
        if (!mayTryAgain(error) || tries === TRIES) throw error
      }
    }
  }
}

function mayTryAgain(error: unknown): boolean {
  return (
    error instanceof DeadlockError || error instanceof LockTimeoutError || error instanceof SerializationError
  )
}

function statementsFor(prefix: string): Readonly<Record<StatementName, Statement>> {
  const statements = Object.entries(TEXTS).map(([name, text]) => {
    return [name, { name: `${prefix}${name}`, text: withPrefix(text, prefix) }]
  })
  return Object.fromEntries(statements) as Record<StatementName, Statement>
}

const TEXT_COLUMNS: readonly string[] = ['host', 'note']

function textsIn(row: Row | undefined): Row {
  const read: Record<string, unknown> = { ...row }
  for (const column of TEXT_COLUMNS) {
    const value = read[column]
    if (value instanceof Buffer) read[column] = value.toString()
  }
  return read
}

/** Walks go by the fence, which is a key of the whole table. */
function positionAt(row: Row | undefined): Position | null {
  const fence = Number(row?.['fence'] ?? 0)
  return fence === 0 ? null : { resource: Buffer.alloc(0), number: String(fence) }
}

function microseconds(ms: number): number {
  return Math.ceil(ms * 1_000)
}
