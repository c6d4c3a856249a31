/**
 * Records in the SQLite file that the locks of a machine are in. Every decision is made by the rule itself, inside a
 * transaction that has the write lock; what only has to be read is read without one.
 */

import type { Renewal } from '../../core/backend.js'
import { ClosedError } from '../../core/errors.js'
import {
  claimed,
  decideClaim,
  decideFinish,
  decideSave,
  decideSpend,
  type Found,
  issued,
  mayRenew,
  nextFence,
  viewOf,
} from '../../core/record-rule.js'
import type {
  ClaimAnswer,
  ClaimAsk,
  FinishAnswer,
  FinishAsk,
  IdempotencyRecord,
  ProgressAsk,
  RecordStore,
  RecordTraits,
  RecordView,
  RenewAsk,
  SpendAnswer,
  SpendAsk,
} from '../../core/records.js'
import { connectionOptions, type SqliteOptions } from './backend.js'
import { type Machine, thisMachine, wallMs } from './clock.js'
import { Connection, type Sql } from './connection.js'
import { RecordRows, type StoredRecord } from './record-rows.js'

/** A machine that a test plays may also say what time of day it takes it to be. */
export interface SqliteRecordsOptions extends Omit<SqliteOptions, 'machine'> {
  readonly machine?: (Machine & { wallMs?(): number }) | undefined
}

const TRAITS: RecordTraits = {
  keeps: 'durable',
  fencing: 'strict',
  bytesMax: 16 * 1024 * 1024,
  leaseMinMs: 50,
  leaseMaxMs: 2 ** 31 - 1,
  retentionMaxMs: null,
}

/** Bounds how long one step keeps the event loop. */
const PURGE_ROWS = 500

/** Idempotency records between the processes of one machine, in a file. A power cut takes none of them away. */
export function sqliteRecords(options: SqliteRecordsOptions): RecordStore {
  const connection = new Connection({ ...connectionOptions(options), synchronous: 'FULL' })
  return new SqliteRecords(connection, options.machine)
}

class SqliteRecords implements RecordStore {
  readonly name = 'sqlite'
  readonly traits = TRAITS
  readonly #connection: Connection
  readonly #rows: RecordRows
  readonly #givenMachine: SqliteRecordsOptions['machine']
  #machine: Machine | null = null
  #aheadMs = 0

  constructor(connection: Connection, machine: SqliteRecordsOptions['machine']) {
    this.#connection = connection
    this.#rows = new RecordRows(connection.path)
    this.#givenMachine = machine
  }

  silence(): string | null {
    return this.#connection.silence
  }

  async open(): Promise<void> {
    if (this.#machine !== null) return
    const given = this.#givenMachine
    const machine = given ?? (await thisMachine())
    const wallNow = (): number => given?.wallMs?.() ?? wallMs()
    try {
      await this.#connection.open(machine)
      this.#aheadMs = await this.#connection.write((sql) => {
        return this.#rows.initialise(sql, { bootId: machine.bootId, nowMs: () => machine.nowMs() }, wallNow)
      })
      this.#machine = machine
    } catch (error) {
      this.#connection.disconnect()
      throw error
    }
  }

  /** Most repeats are answered by a plain read. Only where that finds something to write, the write lock is taken. */
  async claim(ask: ClaimAsk): Promise<ClaimAnswer> {
    const seen = await this.#read((sql, now) => decideClaim(this.#rows.find(sql, ask.key, now), ask, now))
    return seen.kind === 'answer' ? seen.answer : await this.#write((sql, now) => this.#claim(sql, ask, now))
  }

  #claim(sql: Sql, ask: ClaimAsk, now: number): ClaimAnswer {
    const { found, lastFence } = this.#rows.standing(sql, ask.key, now)
    const decision = decideClaim(found, ask, now)
    if (decision.kind === 'answer') return decision.answer
    const record = { ...decision.record, fence: nextFence(lastFence, microseconds(now)) }
    const { leaseMs, retentionMs } = ask
    const leaseUntil = now + leaseMs
    this.#rows.put(sql, ask.key, record, { leaseUntil, expiresAt: endOf(leaseUntil, retentionMs) })
    return claimed(record, leaseMs)
  }

  async renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]> {
    if (asks.length === 0) return []
    return await this.#write((sql, now) => asks.map((ask) => this.#renewOne(sql, ask, now)))
  }

  #renewOne(sql: Sql, ask: RenewAsk, now: number): Renewal {
    const found = this.#rows.find(sql, ask.key, now)
    if (found === null || !mayRenew(found, ask)) return 'lost'
    const leaseUntil = now + ask.leaseMs
    if (leaseUntil > found.leaseUntil) {
      this.#rows.renew(sql, ask.key, leaseUntil, endOf(leaseUntil, ask.retentionMs))
    }
    return 'renewed'
  }

  async finish(ask: FinishAsk): Promise<FinishAnswer> {
    return await this.#write((sql, now) => {
      const found = this.#rows.find(sql, ask.key, now)
      const times = { leaseUntil: now, expiresAt: endOf(now, ask.retentionMs) }
      return this.#change(sql, ask.key, found, decideFinish(recordOf(found), ask), times)
    })
  }

  async save(ask: ProgressAsk): Promise<FinishAnswer> {
    return await this.#write((sql, now) => {
      const found = this.#rows.find(sql, ask.key, now)
      return this.#change(sql, ask.key, found, decideSave(recordOf(found), ask), found)
    })
  }

  #change(
    sql: Sql,
    id: string,
    found: StoredRecord | null,
    record: IdempotencyRecord | null,
    times: Pick<StoredRecord, 'leaseUntil' | 'expiresAt'> | null,
  ): FinishAnswer {
    if (record === null || times === null) return 'stale'
    if (record !== found?.record) this.#rows.put(sql, id, record, times)
    return 'done'
  }

  async read(key: string): Promise<RecordView | null> {
    return await this.#read((sql, now) => {
      const found = this.#rows.find(sql, key, now)
      return found === null ? null : viewOf({ record: found.record, leaseMs: found.leaseMs })
    })
  }

  async issue(key: string, retentionMs: number): Promise<boolean> {
    return await this.#write((sql, now) => {
      const { found, lastFence } = this.#rows.standing(sql, key, now)
      if (found !== null) return false
      const record = { ...issued(now), fence: nextFence(lastFence, microseconds(now)) }
      this.#rows.put(sql, key, record, { leaseUntil: now, expiresAt: now + retentionMs })
      return true
    })
  }

  async spend({ key, count }: SpendAsk): Promise<SpendAnswer> {
    return await this.#write((sql, now) => {
      const found = this.#rows.find(sql, key, now)
      const { answer, record } = decideSpend(recordOf(found), count)
      if (record !== null && found !== null) this.#rows.put(sql, key, record, found)
      return answer
    })
  }

  async forget(key: string): Promise<boolean> {
    return await this.#write((sql) => this.#rows.remove(sql, key))
  }

  async purge(max: number): Promise<number> {
    let purged = 0
    while (purged < max) {
      const count = Math.min(PURGE_ROWS, max - purged)
      const step = await this.#write((sql, now) => this.#rows.purge(sql, now, count))
      purged += step
      if (step < count) break
    }
    return purged
  }

  async close(): Promise<void> {
    this.#machine = null
    this.#connection.close()
  }

  /** The clock is read before the rows: what a plain read sees may change at any moment, but not have changed before. */
  async #read<T>(work: (sql: Sql, now: number) => T): Promise<T> {
    const machine = this.#open()
    return await this.#connection.read((sql) => work(sql, machine.nowMs() + this.#aheadMs))
  }

  /** Nobody else can write while this runs, so what the clock says at its start holds until the commit. */
  async #write<T>(work: (sql: Sql, now: number) => T): Promise<T> {
    const machine = this.#open()
    return await this.#connection.write((sql) => work(sql, machine.nowMs() + this.#aheadMs))
  }

  #open(): Machine {
    if (this.#machine === null) throw new ClosedError({ backend: this.name })
    return this.#machine
  }
}

function recordOf(found: Found | null): IdempotencyRecord | null {
  return found?.record ?? null
}

/** null: never. */
function endOf(from: number, retentionMs: number | null): number | null {
  return retentionMs === null ? null : from + retentionMs
}

function microseconds(ms: number): bigint {
  return BigInt(Math.floor(ms * 1_000))
}
