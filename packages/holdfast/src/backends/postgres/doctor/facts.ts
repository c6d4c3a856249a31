/** What a PostgreSQL server tells about itself. Whatever it is asked is a plain read. */

import type { Row, SqlRunner, Statement } from '../../sql/link.js'
import { RowReader } from '../../sql/row-reader.js'
import { sqlState, strangeAnswer } from '../errors.js'

/** How the server is used, as far as that decides what is good for it. */
export interface Usage {
  readonly recipe: 'rows' | 'advisory' | 'for-update' | 'advisory-xact'
  readonly prefix: string
  readonly wake: 'notify' | 'poll'
  readonly prepare: boolean
  readonly poolMax: number
}

export interface Facts {
  /** What the server calls itself. */
  readonly version: string
  /** By name, in the unit of `pg_settings`. Those that this version does not know are left out. */
  readonly settings: ReadonlyMap<string, string>
  readonly isStandby: boolean
  readonly backends: number
  /** For each standby that is attached whether commits wait for it; null where that may not be seen. */
  readonly standbys: readonly (string | null)[]
  readonly hidden: readonly string[]
}

const SETTINGS: readonly string[] = [
  'server_version',
  'server_version_num',
  'default_transaction_isolation',
  'transaction_read_only',
  'statement_timeout',
  'lock_timeout',
  'idle_session_timeout',
  'idle_in_transaction_session_timeout',
  'transaction_timeout',
  'track_activities',
  'fsync',
  'full_page_writes',
  'synchronous_commit',
  'synchronous_standby_names',
  'max_connections',
  'superuser_reserved_connections',
  'reserved_connections',
]

const SETTING: Statement = {
  name: 'holdfast_doctor_settings',
  text: 'SELECT name, setting FROM pg_settings WHERE name = ANY ($1::text[])',
}
const SERVER: Statement = {
  name: 'holdfast_doctor_server',
  text: `SELECT version() AS version, pg_is_in_recovery() AS is_standby,
      coalesce((SELECT sum(numbackends) FROM pg_stat_database), 0) AS backends`,
}
// Backups and subscribers of a part of the data are no standbys.
const STANDBYS: Statement = {
  name: 'holdfast_doctor_standbys',
  text: `SELECT r.sync_state FROM pg_stat_replication r LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid
    WHERE s.slot_type IS DISTINCT FROM 'logical' AND r.state IS DISTINCT FROM 'backup'`,
}

export async function factsOf(runner: SqlRunner): Promise<Facts> {
  const server = new RowReader((await runner.run(SERVER)).rows[0], strangeAnswer)
  const { rows } = await runner.run(SETTING, [SETTINGS])
  const standbys = await unlessRefused(async () => (await runner.run(STANDBYS)).rows)
  return {
    version: server.text('version'),
    settings: new Map(rows.map((row) => [String(row['name']), String(row['setting'])])),
    isStandby: server.flag('is_standby'),
    backends: server.number('backends'),
    standbys: (standbys ?? []).map(syncStateIn),
    hidden: standbys === null || standbys.some((row) => syncStateIn(row) === null) ? ['replication'] : [],
  }
}

function syncStateIn(row: Row): string | null {
  const state = row['sync_state']
  return typeof state === 'string' ? state : null
}

/** null where the server refuses for want of rights, or does not know what it is asked for. */
export async function unlessRefused<T>(call: () => Promise<T>): Promise<T | null> {
  try {
    return await call()
  } catch (error) {
    if (refusalOf(error)?.startsWith('42')) return null
    throw error
  }
}

/** What the server said to it, whichever error it became. */
export function refusalOf(error: unknown): string | null {
  return sqlState(error) ?? (error instanceof Error ? sqlState(error.cause) : null)
}

export function msIn({ settings }: Facts, name: string): number {
  const ms = Number(settings.get(name) ?? 0)
  return Number.isFinite(ms) ? ms : 0
}
