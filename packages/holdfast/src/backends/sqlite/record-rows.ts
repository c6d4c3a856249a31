/**
 * What is done to the table `records`. Every function is synchronous and runs inside one transaction, except those that
 * only read.
 */

import { UnsupportedError } from '../../core/errors.js'
import type { Found } from '../../core/record-rule.js'
import { RECORD_STATES } from '../../core/record-rule.js'
import type { IdempotencyRecord, RecordState } from '../../core/records.js'
import { RowReader } from '../sql/row-reader.js'
import type { Machine } from './clock.js'
import type { Sql } from './connection.js'
import { malformedRecordError } from './errors.js'

const VERSION = 1

/**
 * Times are milliseconds of a clock that is the machine's monotonic one, set once in each boot: to the time of day, or to
 * where it stood before if that is later. So no step of the time of day ends anything, and fences grow over all boots.
 * `fence` is the highest of the records that were removed.
 */
const TABLES: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS records (
    id TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    owner TEXT NOT NULL,
    fence INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    took_over INTEGER NOT NULL,
    fingerprint TEXT,
    progress TEXT,
    result TEXT,
    lease_until REAL NOT NULL,
    expires_at REAL,
    created_at REAL NOT NULL
  ) STRICT`,
  'CREATE INDEX IF NOT EXISTS records_expiry ON records (expires_at) WHERE expires_at IS NOT NULL',
  `CREATE TABLE IF NOT EXISTS record_clock (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL,
    boot TEXT NOT NULL,
    ahead_ms REAL NOT NULL,
    fence INTEGER NOT NULL
  ) STRICT`,
]

const COLUMNS =
  'state, owner, fence, attempt, took_over, fingerprint, progress, result, lease_until, expires_at, created_at'
const CLOCK = 'SELECT version, boot, ahead_ms, fence FROM record_clock'
const START =
  'INSERT OR IGNORE INTO record_clock (one, version, boot, ahead_ms, fence) VALUES (1, ?, ?, ?, 0)'
const HIGHEST = 'SELECT max((SELECT coalesce(max(fence), 0) FROM records), fence) AS fence FROM record_clock'
const REBOOT = 'UPDATE record_clock SET boot = ?, ahead_ms = ?'
const END_LEASES = "UPDATE records SET lease_until = 0 WHERE state = 'in-progress'"
const FIND = `SELECT ${COLUMNS} FROM records WHERE id = ?`
const PUT = `INSERT INTO records (id, ${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET state = excluded.state, owner = excluded.owner, fence = excluded.fence,
    attempt = excluded.attempt, took_over = excluded.took_over, fingerprint = excluded.fingerprint,
    progress = excluded.progress, result = excluded.result, lease_until = excluded.lease_until,
    expires_at = excluded.expires_at, created_at = excluded.created_at`
const RENEW = 'UPDATE records SET lease_until = ?, expires_at = ? WHERE id = ?'
const REMOVE = 'DELETE FROM records WHERE id = ?'
const REMOVED = 'UPDATE record_clock SET fence = max(fence, ?)'
const EXPIRED = 'SELECT id, fence FROM records WHERE expires_at <= ? ORDER BY expires_at LIMIT ?'

const FENCE_MAX = Number.MAX_SAFE_INTEGER

/** A row that still counts. */
export interface StoredRecord extends Found {
  readonly leaseUntil: number
  readonly expiresAt: number | null
}

/** What stands at a key: the record, unless its time is over, and the fence that the next claim must be above. */
export interface Standing {
  readonly found: StoredRecord | null
  readonly lastFence: bigint
}

export class RecordRows {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  /** Makes what is missing, and says how far the clock of the records is ahead of the machine's. */
  initialise(sql: Sql, { bootId, nowMs }: Pick<Machine, 'bootId' | 'nowMs'>, wallNow: () => number): number {
    for (const table of TABLES) sql(table).run()
    sql(START).run(VERSION, bootId, wallNow() - nowMs())
    const clock = this.#reader(sql(CLOCK).get())
    if (clock.integer('version', 0, FENCE_MAX) !== VERSION) throw this.#otherVersion()
    if (clock.text('boot') === bootId) return clock.number('ahead_ms')
    // No owner outlives a reboot, so nobody has a lease any more.
    sql(END_LEASES).run()
    const lastMs = this.#reader(sql(HIGHEST).get()).integer('fence', 0, FENCE_MAX) / 1_000
    const aheadMs = Math.max(wallNow(), lastMs) - nowMs()
    sql(REBOOT).run(bootId, aheadMs)
    return aheadMs
  }

  find(sql: Sql, id: string, now: number): StoredRecord | null {
    const found = sql(FIND).get(id)
    return found === undefined ? null : this.#live(this.#reader(found), now)
  }

  standing(sql: Sql, id: string, now: number): Standing {
    const row = sql(FIND).get(id)
    if (row === undefined) return { found: null, lastFence: fenceIn(this.#reader(sql(CLOCK).get()), 0) }
    const reader = this.#reader(row)
    return { found: this.#live(reader, now), lastFence: fenceIn(reader, 1) }
  }

  put(
    sql: Sql,
    id: string,
    record: IdempotencyRecord,
    times: Pick<StoredRecord, 'leaseUntil' | 'expiresAt'>,
  ): void {
    const { state, owner, fence, attempt, tookOver, fingerprint, progress, result, createdAtMs } = record
    const texts = [fingerprint, progress, result] as const
    const { leaseUntil, expiresAt } = times
    const ends = [leaseUntil, expiresAt, createdAtMs] as const
    sql(PUT).run(id, state, owner, Number(fence), attempt, tookOver ? 1 : 0, ...texts, ...ends)
  }

  renew(sql: Sql, id: string, leaseUntil: number, expiresAt: number | null): void {
    sql(RENEW).run(leaseUntil, expiresAt, id)
  }

  remove(sql: Sql, id: string): boolean {
    const found = sql(FIND).get(id)
    if (found === undefined) return false
    this.#remove(sql, id, this.#reader(found))
    return true
  }

  purge(sql: Sql, now: number, max: number): number {
    const rows = sql(EXPIRED).all(now, max)
    for (const row of rows) {
      const reader = this.#reader(row)
      this.#remove(sql, reader.text('id'), reader)
    }
    return rows.length
  }

  #remove(sql: Sql, id: string, row: RowReader): void {
    sql(REMOVE).run(id)
    sql(REMOVED).run(row.integer('fence', 1, FENCE_MAX))
  }

  #live(row: RowReader, now: number): StoredRecord | null {
    const expiresAt = row.isNull('expires_at') ? null : row.number('expires_at')
    if (expiresAt !== null && expiresAt <= now) return null
    const leaseUntil = row.number('lease_until')
    return { record: recordIn(row), leaseMs: leaseUntil - now, leaseUntil, expiresAt }
  }

  #reader(row: unknown): RowReader {
    return new RowReader(row, (what) => malformedRecordError(this.#path, what))
  }

  #otherVersion(): UnsupportedError {
    return new UnsupportedError(
      'The SQLite database has records of another version of Holdfast. Use the same Holdfast in all programs.',
      { backend: 'sqlite' },
    )
  }
}

function recordIn(row: RowReader): IdempotencyRecord {
  return {
    state: row.oneOf<RecordState>('state', RECORD_STATES),
    owner: row.text('owner'),
    fence: fenceIn(row, 1),
    attempt: row.integer('attempt', 0, FENCE_MAX),
    tookOver: row.flag('took_over'),
    fingerprint: row.textOrNull('fingerprint'),
    progress: row.textOrNull('progress'),
    result: row.textOrNull('result'),
    createdAtMs: row.number('created_at'),
  }
}

function fenceIn(row: RowReader, min: number): bigint {
  return BigInt(row.integer('fence', min, FENCE_MAX))
}
