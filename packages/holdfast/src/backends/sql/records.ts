/** Records as rows of one table. The rule runs inside the database, in one statement for each step, and by its clock. */

import { hash } from 'node:crypto'
import type { Renewal } from '../../core/backend.js'
import {
  BackendUnavailableError,
  ClosedError,
  DeadlockError,
  InvalidInputError,
  LockTimeoutError,
  SerializationError,
} from '../../core/errors.js'
import { RECORD_STATES } from '../../core/record-rule.js'
import type {
  ClaimAnswer,
  ClaimAsk,
  FinishAnswer,
  FinishAsk,
  ProgressAsk,
  RecordState,
  RecordStore,
  RecordTraits,
  RecordView,
  RenewAsk,
  SpendAnswer,
  SpendAsk,
} from '../../core/records.js'
import { withTable } from './identifiers.js'
import type { Row, Statement } from './link.js'
import { RowReader } from './row-reader.js'

export type RecordStep = 'claim' | 'save' | 'read' | 'issue' | 'spend' | 'forget'

/** What a step is given. Each database has its own way to send these. */
export type RecordValue = Buffer | string | number | bigint | boolean | null

/** The table of records of one database. The columns of an answer have the same names on each. */
export interface RecordTable {
  readonly name: string
  readonly traits: RecordTraits
  readonly schema: string
  run(step: RecordStep, values: readonly RecordValue[]): Promise<readonly Row[]>
  /** Whether the claim was ended by this, or just so by its owner before. */
  finish(values: readonly RecordValue[]): Promise<boolean>
  /** The indexes of those that are alive, each extended. */
  renew(asks: readonly RenewAsk[]): Promise<ReadonlySet<number>>
  /** Removes up to `max` rows whose time is over, and says how many. */
  purge(max: number): Promise<number>
  /** Tells whether the database can be used at all. */
  greet(): Promise<void>
  migrate(): Promise<void>
  close(): Promise<void>
}

const SHOWN: ReadonlySet<unknown> = new Set<SpendAnswer['kind']>(['spent', 'used', 'missing'])
/** How often a step is tried that the database ended for its own reasons. Every step may be done twice. */
const TRIES = 5
/** Three thousand years. What is longer is not told apart from it, and it fits every kind of time. */
const LONGEST_US = 1e17

export class SqlRecords implements RecordStore {
  readonly #table: RecordTable
  #isOpen = false
  #closing: Promise<void> | null = null

  constructor(table: RecordTable) {
    this.#table = table
  }

  get name(): string {
    return this.#table.name
  }

  get traits(): RecordTraits {
    return this.#table.traits
  }

  get schema(): string {
    return this.#table.schema
  }

  async migrate(): Promise<void> {
    await this.#table.migrate()
  }

  async open(): Promise<void> {
    if (this.#closing !== null) throw new ClosedError({ backend: this.name })
    await this.#table.greet()
    this.#isOpen = true
  }

  async claim(ask: ClaimAsk): Promise<ClaimAnswer> {
    const { owner, fingerprint, leaseMs, retentionMs, takeOver, onlyIssued } = ask
    const times = [microseconds(leaseMs), microsecondsOrNull(retentionMs)]
    const values = [idOf(ask.key), owner, fingerprint, ...times, takeOver, onlyIssued]
    return readClaim(this.#reader(await this.#run('claim', values)), leaseMs, this.#malformed)
  }

  async renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]> {
    if (asks.length === 0) return []
    const alive = await this.#again(() => this.#open().renew(asks))
    return asks.map((_, index) => (alive.has(index) ? 'renewed' : 'lost'))
  }

  async finish({ key, owner, fence, state, result, retentionMs }: FinishAsk): Promise<FinishAnswer> {
    const values = [idOf(key), owner, fence, state, result, microsecondsOrNull(retentionMs)]
    const isDone = await this.#again(() => this.#open().finish(values))
    return isDone ? 'done' : 'stale'
  }

  async save({ key, owner, fence, progress }: ProgressAsk): Promise<FinishAnswer> {
    return this.#wasDone(await this.#run('save', [idOf(key), owner, fence, progress]))
  }

  async read(key: string): Promise<RecordView | null> {
    const rows = await this.#run('read', [idOf(key)])
    return rows.length === 0 ? null : readView(this.#reader(rows))
  }

  async issue(key: string, retentionMs: number): Promise<boolean> {
    return this.#wasDone(await this.#run('issue', [idOf(key), microseconds(retentionMs)])) === 'done'
  }

  async spend({ key, count }: SpendAsk): Promise<SpendAnswer> {
    const row = this.#reader(await this.#run('spend', [idOf(key), count]))
    const kind = row.oneOf<SpendAnswer['kind']>('verdict', SHOWN)
    return { kind, uses: row.integer('uses', 0, Number.MAX_SAFE_INTEGER) }
  }

  async forget(key: string): Promise<boolean> {
    return this.#wasDone(await this.#run('forget', [idOf(key)])) === 'done'
  }

  async purge(max: number): Promise<number> {
    return await this.#again(() => this.#open().purge(max))
  }

  async close(): Promise<void> {
    this.#isOpen = false
    this.#closing ??= this.#table.close()
    await this.#closing
  }

  async #run(step: RecordStep, values: readonly RecordValue[]): Promise<readonly Row[]> {
    return await this.#again(() => this.#open().run(step, values))
  }

  async #again<T>(work: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await work()
      } catch (error) {
        if (!mayTryAgain(error) || tries === TRIES) throw error
      }
    }
  }

  /** A row that says nothing, or no row at all, is how some of the statements say no. */
  #wasDone(rows: readonly Row[]): FinishAnswer {
    return rows.length > 0 && this.#reader(rows).flag('done') ? 'done' : 'stale'
  }

  #reader(rows: readonly Row[]): RowReader {
    return new RowReader(rows[0], this.#malformed)
  }

  readonly #malformed = (what: string): BackendUnavailableError => malformedRecord(this.name, what)

  #open(): RecordTable {
    if (!this.#isOpen) throw new ClosedError({ backend: this.name })
    return this.#table
  }
}

function mayTryAgain(error: unknown): boolean {
  return (
    error instanceof DeadlockError || error instanceof LockTimeoutError || error instanceof SerializationError
  )
}

/** Which record it is stays untold: its key is nobody's business. */
export function malformedRecord(backend: string, what: string): BackendUnavailableError {
  return new BackendUnavailableError(
    `A row of the ${backend} table of records was not written by Holdfast: ${what}. Look at it, and delete it if nobody ` +
      'needs it.',
    { backend },
  )
}

/**
 * The answer is one row of few columns, because each costs time on the way: what stands there, its fence, the numbers of
 * it, and the one text that belongs to it. `first`: there was nothing before, so the fence, which is the time, says it all.
 */
function readClaim(row: RowReader, leaseMs: number, fail: (what: string) => Error): ClaimAnswer {
  const kind = row.text('verdict')
  if (kind === 'missing' || kind === 'mismatch') return { kind }
  const fence = fenceIn(row)
  if (kind === 'first') {
    const createdAtMs = Number(fence) / 1_000
    return { kind: 'claimed', fence, attempt: 1, tookOver: false, progress: null, createdAtMs, leaseMs }
  }
  const [attempt = -1, tookOver = -1, leaseUs = -1, createdUs = -1] = row
    .text('detail')
    .split(' ')
    .map(Number)
  if (!Number.isSafeInteger(attempt) || attempt < 0) throw fail('`attempt` makes no sense')
  const createdAtMs = createdUs / 1_000
  const text = row.textOrNull('content')
  switch (kind) {
    case 'claimed': {
      const had = { fence, attempt, tookOver: tookOver === 1, progress: text, createdAtMs }
      return { kind, ...had, leaseMs: leaseUs / 1_000 }
    }
    case 'in-progress':
      return { kind, fence, attempt, leaseMs: leaseUs / 1_000 }
    case 'abandoned':
      return { kind, fence, attempt }
    case 'completed':
    case 'failed':
      return { kind: 'settled', state: kind, fence, attempt, result: text, createdAtMs }
    default:
      throw fail('`verdict` makes no sense')
  }
}

function readView(row: RowReader): RecordView {
  const state = row.oneOf<RecordState>('state', RECORD_STATES)
  return {
    state,
    owner: row.text('owner'),
    fence: fenceIn(row),
    attempt: attemptIn(row),
    tookOver: row.flag('took_over'),
    fingerprint: row.textOrNull('fingerprint'),
    progress: row.textOrNull('progress'),
    result: row.textOrNull('result'),
    createdAtMs: createdIn(row),
    leaseMs: state === 'in-progress' ? Math.max(0, leaseIn(row)) : null,
  }
}

function fenceIn(row: RowReader): bigint {
  return BigInt(row.integer('fence', 1, Number.MAX_SAFE_INTEGER))
}

function attemptIn(row: RowReader): number {
  return row.integer('attempt', 0, Number.MAX_SAFE_INTEGER)
}

function leaseIn(row: RowReader): number {
  return row.number('lease_us') / 1_000
}

function createdIn(row: RowReader): number {
  return row.number('created_us') / 1_000
}

/** The bytes of a key. Anything but 64 digits would be cut short or filled up, and be another key's. */
export function idOf(key: string): Buffer {
  const id = Buffer.from(key, 'hex')
  if (id.length !== 32 || key.length !== 64) {
    throw new InvalidInputError('key', 'the 64 hexadecimal digits of a hash', key.length)
  }
  return id
}

export function microseconds(ms: number): number {
  return Math.min(Math.ceil(ms * 1_000), LONGEST_US)
}

export function microsecondsOrNull(ms: number | null): number | null {
  return ms === null ? null : microseconds(ms)
}

/**
 * The statements for this table. A server may cut the name of a prepared statement short, so the name of the table is
 * only in it as a hash.
 */
export function statementsFor<Name extends string>(
  texts: Readonly<Record<Name, string>>,
  table: string,
): Readonly<Record<Name, Statement>> {
  const tag = hash('sha256', table, 'hex').slice(0, 16)
  const statements = Object.entries<string>(texts).map(([step, text]) => {
    return [step, { name: `holdfast_record_${step}_${tag}`, text: withTable(text, table) }]
  })
  return Object.fromEntries(statements) as Record<Name, Statement>
}
