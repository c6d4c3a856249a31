/** Records in MySQL or MariaDB, over a ready pool of `mysql2/promise`. The rule is in `records-schema.sql`. */

import { InvalidInputError } from '../../core/errors.js'
import { checkKeys } from '../../core/options.js'
import type { RecordStore, RecordTraits, RenewAsk } from '../../core/records.js'
import { recordTableOf, withTable } from '../sql/identifiers.js'
import type { Row, SqlLink, Statement } from '../sql/link.js'
import {
  microseconds,
  microsecondsOrNull,
  type RecordStep,
  type RecordTable,
  type RecordValue,
  SqlRecords,
  statementsFor,
} from '../sql/records.js'
import type { MysqlConnection, MysqlPool } from './client.js'
import { requireAutocommit } from './get-lock.js'
import { mysqlLink } from './link.js'
import { source } from './records-schema.sql'
import { migrateText } from './schema.js'

export interface MysqlRecordsOptions {
  /** Where the records are kept, after a database if need be. Default `holdfast_records`, or `records` behind the prefix. */
  readonly table?: string | undefined
  /** What the names of Holdfast's tables and routines begin with. Default `holdfast_`. */
  readonly tablePrefix?: string | undefined
}

const KEYS: readonly string[] = ['table', 'tablePrefix']

const TRAITS: RecordTraits = {
  keeps: 'durable',
  fencing: 'strict',
  // Far below every default of `max_allowed_packet`, and a tenth of the smallest default of the log of InnoDB.
  bytesMax: 4 * 1024 * 1024,
  leaseMinMs: 50,
  leaseMaxMs: 2 ** 31 - 1,
  retentionMaxMs: null,
}

/** Of the statement's beginning. See `records-schema.sql` for why it is this function. */
const NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

const TEXTS = {
  look: 'CALL holdfast_records_look_v1(?, ?, ?, ?, ?, ?)',
  claim: 'CALL holdfast_records_claim_v1(?, ?, ?, ?, ?, ?, ?)',
  renew: 'CALL holdfast_records_renew_v1(?)',
  // The state changes, so the count is the same whether it is of rows that were found or of rows that were changed.
  finish: `UPDATE holdfast_records SET state = ?, result = ?, lease_until = ${NOW}, expires_at = ${NOW} + ?,
      purge_minute = (${NOW} + ?) DIV 60000000
    WHERE id = ? AND owner = ? AND fence = ? AND state = 'in-progress' AND (expires_at IS NULL OR expires_at > ${NOW})`,
  ended: `SELECT 1 AS done FROM holdfast_records
    WHERE id = ? AND owner = ? AND fence = ? AND state = CAST(? AS CHAR CHARACTER SET ascii)
      AND (expires_at IS NULL OR expires_at > ${NOW})`,
  save: 'CALL holdfast_records_save_v1(?, ?, ?, ?)',
  read: `SELECT state, owner, fence, attempt, took_over, fingerprint, CAST(progress AS BINARY) AS progress,
      CAST(result AS BINARY) AS result, lease_until - ${NOW} AS lease_us, created_at AS created_us
    FROM holdfast_records WHERE id = ? AND (expires_at IS NULL OR expires_at > ${NOW})`,
  issue: 'CALL holdfast_records_issue_v1(?, ?)',
  spend: 'CALL holdfast_records_spend_v1(?, ?)',
  forget: 'DELETE FROM holdfast_records WHERE id = ?',
  // Nothing is locked by looking.
  expired: `SELECT HEX(id) AS id FROM holdfast_records FORCE INDEX (purge_minute)
    WHERE purge_minute <= ${NOW} DIV 60000000 AND expires_at <= ${NOW} ORDER BY purge_minute LIMIT ?`,
  // By the primary key, in the order in which a claim locks a row: by the other index, the two could wait for each other.
  purge: `DELETE record FROM JSON_TABLE(?, '$[*]' COLUMNS (id VARCHAR(64) PATH '$')) asked
    STRAIGHT_JOIN holdfast_records record ON record.id = UNHEX(asked.id)
    WHERE record.expires_at <= ${NOW}`,
} as const

/** Each statement of a purge locks this many rows at most. */
const PURGE_ROWS = 500

/** Idempotency records in a table of MySQL or MariaDB. Ending the pool stays with you. */
export function mysqlRecords<Connection extends MysqlConnection>(
  pool: MysqlPool<Connection>,
  options: MysqlRecordsOptions = {},
): RecordStore {
  if (typeof pool?.getConnection !== 'function') {
    throw new InvalidInputError('pool', 'a ready pool of `mysql2/promise`', pool)
  }
  return recordsOver(mysqlLink(pool, { end: async () => {} }), options)
}

/** The same over whatever leads to MySQL. */
export function recordsOver(link: SqlLink, options: MysqlRecordsOptions): RecordStore {
  checkKeys(options, KEYS)
  return new SqlRecords(new MysqlRecordTable(link, recordTableOf(options)))
}

class MysqlRecordTable implements RecordTable {
  readonly name = 'mysql'
  readonly traits = TRAITS
  readonly schema: string
  readonly #link: SqlLink
  readonly #statements: Readonly<Record<keyof typeof TEXTS, Statement>>

  constructor(link: SqlLink, table: string) {
    this.#link = link
    this.#statements = statementsFor(TEXTS, table)
    this.schema = withTable(source, table)
  }

  /** Most claims need only the shorter routine: nothing is there, or something that is only to be told. */
  async run(step: RecordStep, values: readonly RecordValue[]): Promise<readonly Row[]> {
    const sent = values.map(asSent)
    if (step === 'claim' && values.at(-1) === false) {
      const { rows } = await this.#link.run(this.#statements.look, sent.slice(0, -1))
      if (rows[0] !== undefined && rows[0]['verdict'] !== 'free') return rows.map(textsIn)
    }
    const { rows, affected } = await this.#link.run(this.#statements[step], sent)
    return step === 'forget' ? [{ done: affected }] : rows.map(textsIn)
  }

  async finish(values: readonly RecordValue[]): Promise<boolean> {
    const [id, owner, fence, state, result, retention] = values.map(asSent)
    const ended = [state, result, retention, retention, id, owner, fence]
    if ((await this.#link.run(this.#statements.finish, ended)).affected === 1) return true
    // Its owner may be asking for the second time.
    return (await this.#link.run(this.#statements.ended, [id, owner, fence, state])).rows.length > 0
  }

  async renew(asks: readonly RenewAsk[]): Promise<ReadonlySet<number>> {
    const asked = asks.map(({ key, owner, fence, leaseMs, retentionMs }, n) => ({
      n,
      id: key,
      owner: Buffer.from(owner).toString('hex'),
      fence: Number(fence),
      lease: microseconds(leaseMs),
      retention: microsecondsOrNull(retentionMs),
    }))
    // Whoever locks several rows locks them in the order of the table, so that no two wait for each other.
    asked.sort((a, b) => (a.id < b.id ? -1 : 1))
    const { rows } = await this.#link.run(this.#statements.renew, [JSON.stringify(asked)])
    return new Set(rows.map((row) => Number(row['n'])))
  }

  async purge(max: number): Promise<number> {
    let purged = 0
    while (purged < max) {
      const count = Math.min(PURGE_ROWS, max - purged)
      const { rows } = await this.#link.run(this.#statements.expired, [String(count)])
      if (rows.length === 0) break
      const ids = rows.map((row) => String(row['id'])).sort()
      const { affected } = await this.#link.run(this.#statements.purge, [JSON.stringify(ids)])
      purged += affected
      // None, if others are at the same rows.
      if (affected === 0 || rows.length < count) break
    }
    return purged
  }

  async greet(): Promise<void> {
    await requireAutocommit(this.#link)
  }

  async migrate(): Promise<void> {
    await this.#link.script(migrateText(this.schema))
  }

  async close(): Promise<void> {
    await this.#link.close()
  }
}

/** Texts go as bytes, so that the character set of the connection does not matter. A fence is well below 2^53. */
function asSent(value: RecordValue): unknown {
  if (typeof value === 'string') return Buffer.from(value)
  if (typeof value === 'bigint') return Number(value)
  return typeof value === 'boolean' ? Number(value) : value
}

function textsIn(row: Row): Row {
  const texts: Record<string, unknown> = {}
  for (const [column, value] of Object.entries(row)) {
    texts[column] = value instanceof Buffer ? value.toString() : value
  }
  return texts
}
