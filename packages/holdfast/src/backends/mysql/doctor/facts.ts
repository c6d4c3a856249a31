/** What a MySQL or MariaDB server tells about itself. Whatever it is asked is a plain read. */

import type { Row, SqlRunner, Statement } from '../../sql/link.js'
import { errno } from '../errors.js'

/** How the server is used, as far as that decides what is good for it. */
export interface Usage {
  readonly recipe: 'rows' | 'get-lock' | 'for-update'
  readonly prefix: string
  readonly poolMax: number
}

export interface Facts {
  /** As a new connection has them. Those that this server does not know are left out. */
  readonly variables: ReadonlyMap<string, string>
  readonly status: ReadonlyMap<string, string>
  /** How many replicas are attached; null where that may not be seen. */
  readonly replicas: number | null
  /** How many servers this one copies from; null where that may not be seen. */
  readonly sources: number | null
}

const VARIABLES: readonly string[] = [
  'version',
  'autocommit',
  'transaction_isolation',
  'tx_isolation',
  'read_only',
  'super_read_only',
  'innodb_read_only',
  'transaction_read_only',
  'tx_read_only',
  'wait_timeout',
  'innodb_lock_wait_timeout',
  'max_statement_time',
  'max_execution_time',
  'idle_transaction_timeout',
  'idle_write_transaction_timeout',
  'innodb_flush_log_at_trx_commit',
  'innodb_doublewrite',
  'sync_binlog',
  'log_bin',
  'binlog_format',
  'max_connections',
  'wsrep_on',
  'group_replication_single_primary_mode',
  'rpl_semi_sync_master_enabled',
  'rpl_semi_sync_source_enabled',
]
const STATUS: readonly string[] = [
  'Threads_connected',
  'Rpl_semi_sync_master_clients',
  'Rpl_semi_sync_source_clients',
  'wsrep_cluster_size',
]

const listed = (names: readonly string[]): string => names.map((name) => `'${name}'`).join(', ')
const statement = (name: string, text: string): Statement => ({ name: `holdfast_doctor_${name}`, text })

const SHOW_VARIABLES = statement(
  'variables',
  `SHOW SESSION VARIABLES WHERE Variable_name IN (${listed(VARIABLES)})`,
)
const SHOW_STATUS = statement('status', `SHOW GLOBAL STATUS WHERE Variable_name IN (${listed(STATUS)})`)
/** MySQL since 8.0.22, MariaDB, and MySQL before. */
const SHOW_REPLICAS = ['SHOW REPLICAS', 'SHOW REPLICA HOSTS', 'SHOW SLAVE HOSTS'].map((text) =>
  statement('replicas', text),
)
const SHOW_SOURCES = ['SHOW REPLICA STATUS', 'SHOW SLAVE STATUS'].map((text) => statement('sources', text))

export async function factsOf(runner: SqlRunner): Promise<Facts> {
  return {
    variables: pairsIn((await runner.run(SHOW_VARIABLES)).rows),
    status: pairsIn((await runner.run(SHOW_STATUS)).rows),
    replicas: await rowsOf(runner, SHOW_REPLICAS),
    sources: await rowsOf(runner, SHOW_SOURCES),
  }
}

function pairsIn(rows: readonly Row[]): ReadonlyMap<string, string> {
  return new Map(rows.map((row) => [String(row['Variable_name']), String(row['Value'])]))
}

const SYNTAX_ERROR = 1064
/** For want of the right, which for these statements is a different one in each version. */
const DENIED: ReadonlySet<number> = new Set([1044, 1142, 1227])

/** How many rows the first of the statements gives that this server knows; null where this user may not ask. */
async function rowsOf(runner: SqlRunner, statements: readonly Statement[]): Promise<number | null> {
  for (const each of statements) {
    try {
      return (await runner.run(each)).rows.length
    } catch (error) {
      const refusal = refusalOf(error)
      if (refusal !== null && DENIED.has(refusal)) return null
      if (refusal !== SYNTAX_ERROR) throw error
    }
  }
  return null
}

/** What the server said to it, whichever error it became. */
export function refusalOf(error: unknown): number | null {
  return errno(error) ?? (error instanceof Error ? errno(error.cause) : null)
}
