/**
 * Locks between the processes of one machine, in a SQLite file. Every decision is made by `decide()` inside
 * a transaction that has the write lock; no transaction outlives the call that needs it, so a process that
 * dies or stands still holds at most its lease.
 */

import type {
  Backend,
  Claim,
  Eviction,
  Guarantees,
  Patience,
  Release,
  Renewal,
  RenewRequest,
  ResourceView,
  Verdict,
} from '../../core/backend.js'
import { InvalidInputError, UnsupportedError } from '../../core/errors.js'
import { type Decision, decide, LIMIT_MAX, renewedExpiry, viewLine } from '../../core/line.js'
import { NAME_BYTES_MAX, refOf } from '../../core/names.js'
import { checkBoolean } from '../../core/options.js'
import { Attempts } from './attempts.js'
import type { DriverName, SqliteDatabase } from './client.js'
import { breathe, type Machine, thisMachine } from './clock.js'
import { Connection, type ConnectionOptions, type Sql } from './connection.js'
import { LineStore } from './line-store.js'
import type { ReadLine } from './rows.js'

export interface SqliteOptions {
  /**
   * The file, made where it is missing. All programs that share locks must use the same one, and it must be
   * local.
   */
  readonly path: string
  /** A ready connection to that file, for Holdfast alone. Closing it stays with the caller. */
  readonly database?: SqliteDatabase | undefined
  /** The default: `node:sqlite` on Node 24 and later, else `libsql`, else `better-sqlite3`. */
  readonly driver?: DriverName | undefined
  /** How long a request may wait for others to finish writing. 5,000 by default. */
  readonly busyMs?: number | undefined
  /**
   * Whether what is asked for in one turn of the event loop is written in one transaction. For programs with many callers
   * at once, such as the service: a commit is the dearest part of a request. A single caller waits a little longer.
   */
  readonly together?: boolean | undefined
  /** The machine's clock and boot, for tests. */
  readonly machine?: Machine | undefined
}

export const SQLITE_GUARANTEES: Guarantees = {
  keptBy: 'lease',
  safety: 'single-node',
  fencing: 'strict',
  waiting: 'poll',
  fair: true,
  weights: 'any',
  shows: 'claims',
  limitMax: LIMIT_MAX,
  clock: 'server-monotonic',
  ttlMinMs: 50,
  ttlMaxMs: 2 ** 31 - 1,
  ttlStepMs: 1,
  nameBytesMax: NAME_BYTES_MAX,
}

/** A decision that gives the claim a place, or finds it in one. */
type Standing = Extract<Decision, { kind: 'join' | 'stand' }>

const BUSY_MS = 5_000
/** Both bound how long one step of upkeep or of a listing keeps the event loop. */
const SWEEP_ROWS = 500
const LIST_NAMES = 50
/** Sweeping more rows than were added since the last sweep is what keeps the table from growing. */
const SWEEP_EVERY_JOINS = 256
const SWEEPS_AT_OPEN = 64
/**
 * The memory of placed claims is a help, not a truth: it may be dropped, but it must not grow without end.
 */
const PLACED_MAX = 100_000

const EMPTY_LINE: ReadLine = { live: [], hasExpired: false }
/** What an attempt hears that its claim's release has overtaken. */
const ENDED: Verdict = { kind: 'refused', retryAfterMs: null, holder: null }

export function sqliteBackend(options: SqliteOptions): Backend {
  return new SqliteBackend(new Connection(connectionOptions(options)), options.machine)
}

/** Where and how a file is opened, checked. */
export function connectionOptions(options: SqliteOptions): ConnectionOptions {
  const { path, database, driver, busyMs = BUSY_MS, together = false } = options
  if (typeof path !== 'string' || path === '') throw new InvalidInputError('path', 'the path of a file', path)
  if (path.startsWith(':memory:')) {
    throw new UnsupportedError(
      'No other process sees a SQLite database in memory. Connect to `memory:` instead.',
      { backend: 'sqlite' },
    )
  }
  if (!Number.isInteger(busyMs) || busyMs < 0 || busyMs > 2 ** 31 - 1) {
    throw new InvalidInputError('busyMs', 'a whole number of milliseconds from 0 to 2147483647', busyMs)
  }
  return { path, database, driver, busyMs, together: checkBoolean(together, 'together') }
}

class SqliteBackend implements Backend {
  readonly name = 'sqlite'
  readonly guarantees = SQLITE_GUARANTEES
  readonly #connection: Connection
  readonly #store: LineStore
  readonly #givenMachine: Machine | undefined
  /** The places that this connection has given out and not seen end, so that a poll knows where to look. */
  readonly #placed = new Map<string, number>()
  readonly #attempts = new Attempts()
  #machine: Machine | null = null
  #opening: Promise<void> | null = null
  #joins = 0

  constructor(connection: Connection, machine: Machine | undefined) {
    this.#connection = connection
    this.#store = new LineStore(connection.path)
    this.#givenMachine = machine
  }

  /** The sink is not kept: SQLite tells nobody anything, and waiting is polling. */
  async open(): Promise<void> {
    this.#opening ??= this.#open()
    try {
      await this.#opening
    } catch (error) {
      this.#opening = null
      this.#connection.disconnect()
      throw error
    }
  }

  async #open(): Promise<void> {
    this.#machine = this.#givenMachine ?? (await thisMachine())
    await this.#connection.open(this.#machine)
    await this.#sweepAll()
  }

  /** Up to a bound: a huge table is swept to the end by the joins to come. */
  async #sweepAll(): Promise<void> {
    for (let step = 0; step < SWEEPS_AT_OPEN; step += 1) {
      const done = await this.#connection.write((sql) => this.#store.sweep(sql, this.#now(), SWEEP_ROWS))
      if (done) return
      await breathe()
    }
  }

  silence(): string | null {
    return this.#connection.silence
  }

  async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const place = this.#placed.get(claim.id)
    if (place !== undefined) {
      const verdict = await this.#connection.read((sql) => this.#poll(sql, claim, patience, place))
      if (verdict !== null) return verdict
    }
    const ticket = this.#attempts.start(claim.id)
    try {
      return await this.#connection.write((sql) => {
        return ticket.ended ? ENDED : this.#take(sql, claim, patience)
      })
    } finally {
      this.#attempts.finish(claim.id, ticket)
    }
  }

  /**
   * Answers a claim that stands from a plain read, or says with null that something must be written. A read
   * may grant only over rows that are gone: one that looks expired may have been renewed by a transaction
   * that has read the clock but not yet committed. For the same reason the clock is read before the rows.
   */
  #poll(sql: Sql, claim: Claim, patience: Patience, place: number): Verdict | null {
    const now = this.#now()
    const { live, hasExpired } = this.#store.line(sql, claim.resource, now, place)
    if (hasExpired) return null
    const decision = decide(live, claim, patience, now)
    if (decision.kind !== 'stand' || decision.extend || decision.weight !== decision.place.weight) return null
    return verdictOf(decision, Number(decision.place.fence))
  }

  #take(sql: Sql, claim: Claim, patience: Patience): Verdict {
    const { id, resource } = claim
    // Nobody else can write from here on, so what the clock says now holds until the commit.
    const now = this.#now()
    const { fence, taken } = this.#store.peek(sql, resource)
    const { live, hasExpired } = taken ? this.#store.line(sql, resource, now) : EMPTY_LINE
    if (hasExpired) this.#store.clear(sql, resource, now)
    const decision = decide(live, claim, patience, now)
    switch (decision.kind) {
      case 'mismatched':
      case 'refused':
        this.#placed.delete(id)
        return decision
      case 'join':
        this.#store.join(sql, claim, fence + 1, now, decision.leaseMs)
        this.#sweepNowAndThen(sql, now)
        this.#remember(id, fence + 1)
        return verdictOf(decision, fence + 1)
      case 'stand': {
        const { weight, extend } = decision
        const place = Number(decision.place.fence)
        const expiresAt = extend ? now + decision.leaseMs : decision.place.expiresAt
        if (extend || weight !== decision.place.weight) {
          this.#store.stand(sql, resource, place, weight, expiresAt)
        }
        this.#remember(id, place)
        return verdictOf(decision, place)
      }
    }
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    if (requests.length === 0) return []
    const renewals = await this.#connection.write((sql) => {
      const now = this.#now()
      return requests.map((request) => this.#renewOne(sql, request, now))
    })
    for (const [index, { claim }] of requests.entries()) {
      if (renewals[index] === 'lost') this.#placed.delete(claim.id)
    }
    return renewals
  }

  #renewOne(sql: Sql, request: RenewRequest, now: number): Renewal {
    const { claim } = request
    // Only this place is meant, and it is found without searching a long queue.
    const found = request.fence === null ? undefined : this.#store.findAt(sql, claim, Number(request.fence))
    const expiresAt = renewedExpiry(found, request, now)
    if (found === undefined || expiresAt === null) return 'lost'
    if (expiresAt !== found.expiresAt) this.#store.renew(sql, claim.resource, found.place, expiresAt)
    return 'renewed'
  }

  async release(claim: Claim): Promise<Release> {
    this.#attempts.end(claim.id)
    const wasLive = await this.#connection.write((sql) => {
      return this.#store.leave(sql, claim, this.#placed.get(claim.id), this.#now())
    })
    this.#placed.delete(claim.id)
    return wasLive ? 'released' : 'gone'
  }

  async inspect(resource: string): Promise<ResourceView> {
    return await this.#connection.read((sql) => this.#view(sql, resource))
  }

  async *list(prefix: string): AsyncGenerator<ResourceView, void, void> {
    let last: string | null = null
    for (;;) {
      const after: string | null = last
      const names: readonly string[] = await this.#connection.read((sql) =>
        this.#store.names(sql, prefix, after, LIST_NAMES),
      )
      for (const name of names) {
        if (!name.startsWith(prefix)) return
        const view = await this.#connection.read((sql) => this.#view(sql, name))
        if (view.shape !== null) yield view
        last = name
      }
      if (names.length < LIST_NAMES) return
      await breathe()
    }
  }

  async evict(resource: string, ref: string): Promise<Eviction> {
    return await this.#connection.write((sql) => {
      const { live } = this.#store.line(sql, resource, this.#now())
      const found = live.find((place) => refOf(place.id) === ref)
      if (found === undefined) return 'gone'
      this.#store.remove(sql, resource, found.place)
      return 'evicted'
    })
  }

  async close(): Promise<void> {
    this.#placed.clear()
    this.#opening = null
    this.#connection.close()
  }

  #view(sql: Sql, resource: string): ResourceView {
    const now = this.#now()
    return viewLine(resource, this.#store.line(sql, resource, now).live, now)
  }

  #sweepNowAndThen(sql: Sql, now: number): void {
    this.#joins += 1
    if (this.#joins % SWEEP_EVERY_JOINS === 0) this.#store.sweep(sql, now, SWEEP_ROWS)
  }

  #remember(id: string, place: number): void {
    if (this.#placed.size >= PLACED_MAX) this.#placed.clear()
    this.#placed.set(id, place)
  }

  #now(): number {
    return (this.#machine as Machine).nowMs()
  }
}

function verdictOf(decision: Standing, place: number): Verdict {
  const { admitted, leaseMs, weight, ahead, retryAfterMs, holder } = decision
  const fence = BigInt(place)
  if (admitted) return { kind: 'granted', fence, leaseMs, weight }
  return { kind: 'waiting', fence, leaseMs, weight, ahead, retryAfterMs, holder }
}
