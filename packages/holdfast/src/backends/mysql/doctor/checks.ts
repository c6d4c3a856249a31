/** What to make of what a MySQL or MariaDB server tells about itself. Pure: facts in, findings out. */

import type { Finding } from '../../../core/doctor.js'
import { count, finding, ok } from '../../shared/doctor/findings.js'
import { checkConnections, endsTransactions, inWords, unseen } from '../../sql/doctor/checks.js'
import type { Facts, Usage } from './facts.js'

type Check = (facts: Facts, usage: Usage) => readonly Finding[]

/** Older ones get no more fixes, or lack what the routines use. */
const OLDEST = { MySQL: [8, 0], MariaDB: [10, 6] } as const
/** Others that speak its language. They have no routines, or no locks that are the same on all their nodes. */
const RELATIVES = /TiDB|Vitess|OceanBase|SingleStore|Doris/i
/** A step waits for others of its kind for milliseconds. */
const SHORT_MS = 2_000
/** Connections that are closed sooner than this are closed between two uses all the time. */
const OFTEN_MS = 60_000
/** Whoever holds a lock for longer than this without a statement has other worries. */
const LONG_MS = 3_600_000

export function checkFacts(facts: Facts, usage: Usage): Finding[] {
  return CHECKS.flatMap((check) => check(facts, usage))
}

/** Whether the recipe keeps anything in tables. */
function hasTables({ recipe }: Usage): boolean {
  return recipe !== 'get-lock'
}

function isOn({ variables }: Facts, ...names: readonly string[]): boolean {
  return names.some((name) => ['ON', '1', 'YES'].includes(variables.get(name) ?? ''))
}

function numberIn(fields: ReadonlyMap<string, string>, ...names: readonly string[]): number {
  return Number(names.map((name) => fields.get(name)).find((value) => value !== undefined) ?? 0)
}

const server: Check = ({ variables }) => {
  const version = variables.get('version') ?? ''
  const family = /mariadb/i.test(version) ? 'MariaDB' : 'MySQL'
  const found = `${family} ${version.split('-')[0]}`
  if (RELATIVES.test(version)) {
    const advice =
      'Holdfast is tested with MySQL and MariaDB only. Run its conformance suite against this server.'
    return [finding('warning', 'server', `not MySQL itself: ${version.slice(0, 60)}`, advice)]
  }
  const [major = 0, minor = 0] = version.split('.').map((part) => Number.parseInt(part, 10))
  const [oldestMajor, oldestMinor] = OLDEST[family]
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return [ok('server', found)]
  const advice = `Holdfast is made for ${family} ${OLDEST[family].join('.')} or newer.`
  return [finding('danger', 'server', found, advice)]
}

const WORDS: Readonly<Record<Usage['recipe'], string>> = {
  rows: 'a line in a table',
  'get-lock': 'session locks, which need no table',
  'for-update': 'rows that are locked by a transaction',
}

const recipe: Check = (_facts, usage) => [ok('recipe', `${usage.recipe}: ${WORDS[usage.recipe]}`)]

const role: Check = (facts) => {
  const names = ['read_only', 'super_read_only', 'innodb_read_only', 'transaction_read_only', 'tx_read_only']
  const readOnly = names.filter((name) => isOn(facts, name))
  if (readOnly.length > 0) {
    const found = `${readOnly.map((name) => `\`${name}\``).join(', ')} on: it takes no writes, as a replica does`
    return [finding('danger', 'role', found, 'Connect to the source, which takes writes.')]
  }
  if (facts.sources === null || facts.sources === 0) return [ok('role', 'takes writes')]
  const found = 'a replica of another server that takes writes itself: the two may grant the same lock'
  const advice = 'Connect to the source, and set `read_only` on replicas.'
  return [finding('warning', 'role', found, advice)]
}

const writers: Check = (facts) => {
  if (isOn(facts, 'wsrep_on')) {
    const size = numberIn(facts.status, 'wsrep_cluster_size')
    const found = `a node of a Galera cluster${size > 0 ? ` of ${size}` : ''}: row locks and session locks are of one node`
    const advice =
      'Two nodes can grant the same lock. Let every client of Holdfast use the same node, and resources check the fence.'
    return [finding('danger', 'writers', found, advice)]
  }
  if (facts.variables.get('group_replication_single_primary_mode') !== 'OFF') return []
  const found = 'a member of a group in which every member takes writes: locks are of one member'
  const advice =
    'Set `group_replication_single_primary_mode`, or let every client of Holdfast use the same member.'
  return [finding('danger', 'writers', found, advice)]
}

const isolation: Check = (facts, usage) => {
  const { variables } = facts
  const level = variables.get('transaction_isolation') ?? variables.get('tx_isolation') ?? 'unknown'
  const findings = [
    ok('isolation', hasTables(usage) ? `${level}; Holdfast sets its own for its steps` : level),
  ]
  if (!hasTables(usage)) return findings
  if (!isOn(facts, 'autocommit')) {
    const found = '`autocommit` is off for new connections: what a step has locked stays locked'
    const advice = 'Set `autocommit` to ON, or give a ready pool whose connections do.'
    findings.push(finding('danger', 'autocommit', found, advice))
  }
  if (isOn(facts, 'log_bin') && variables.get('binlog_format') === 'STATEMENT') {
    const found = '`binlog_format` is STATEMENT, with which nothing can be written at READ COMMITTED'
    findings.push(finding('danger', 'binlog', found, 'Set `binlog_format` to ROW or MIXED.'))
  }
  return findings
}

const timeouts: Check = (facts, usage) => {
  const found = [...stepTimeouts(facts, usage), ...idleTimeouts(facts, usage)]
  return found.length > 0 ? found : [ok('timeouts', 'none that cuts a lock short')]
}

/** The one of MariaDB counts seconds, the one of MySQL milliseconds. */
function stepTimeouts({ variables }: Facts, usage: Usage): Finding[] {
  if (!hasTables(usage)) return []
  const findings: Finding[] = []
  const limits = [
    ['max_statement_time', numberIn(variables, 'max_statement_time') * 1_000],
    ['max_execution_time', numberIn(variables, 'max_execution_time')],
  ] as const
  for (const [name, ms] of limits) {
    if (ms === 0 || ms >= SHORT_MS) continue
    const found = `\`${name}\` of ${inWords(ms)}: a request fails where it would have to wait for a moment`
    const advice = `Set it to ${inWords(SHORT_MS)} or more, or to 0, for the user that Holdfast has.`
    findings.push(finding('warning', 'timeouts', found, advice))
  }
  if (variables.get('innodb_lock_wait_timeout') === '0') {
    const found = '`innodb_lock_wait_timeout` of 0: an acquire fails where it would have to wait for a moment'
    findings.push(finding('warning', 'timeouts', found, 'Set it to 2 or more.'))
  }
  return findings
}

/** Session locks see to their connection themselves. */
function idleTimeouts({ variables }: Facts, usage: Usage): Finding[] {
  const waitMs = numberIn(variables, 'wait_timeout') * 1_000
  if (usage.recipe === 'rows') {
    if (waitMs === 0 || waitMs >= OFTEN_MS) return []
    const advice = 'They are opened again when they are needed, which costs the first request some time.'
    return [
      finding('note', 'timeouts', `\`wait_timeout\` of ${inWords(waitMs)} closes idle connections`, advice),
    ]
  }
  if (usage.recipe === 'get-lock') return []
  return ['wait_timeout', 'idle_transaction_timeout', 'idle_write_transaction_timeout'].flatMap((name) => {
    const ms = numberIn(variables, name) * 1_000
    return ms === 0 || ms >= LONG_MS
      ? []
      : [endsTransactions(name, ms, 'a transaction in which nothing is done')]
  })
}

const replication: Check = (facts, usage) => {
  if (facts.replicas === null) return []
  if (facts.replicas === 0) return [ok('replication', 'no replica: no failover can forget a lock')]
  const attached = `${count(facts.replicas, 'replica')} attached`
  if (usage.recipe === 'for-update') {
    return [ok('replication', `${attached}; what is not copied in time is lost with its lock, and not alone`)]
  }
  if (usage.recipe === 'get-lock') {
    const advice =
      'Holders hear of a failover when their connection ends. Use the recipe `rows` if that is not enough.'
    const found = `${attached}, and these locks are not copied: a failover frees all of them`
    return [finding('warning', 'replication', found, advice)]
  }
  const isWaited = isOn(facts, 'rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled')
  const waited = numberIn(facts.status, 'Rpl_semi_sync_source_clients', 'Rpl_semi_sync_master_clients')
  if (isWaited && waited > 0) {
    const advice =
      'Raise the timeout of semi-synchronous replication, so that a failover finds what was granted.'
    const found = `${attached}, and a commit waits for one of them, but not for longer than its timeout`
    return [finding('note', 'replication', found, advice)]
  }
  return [
    finding(
      'warning',
      'replication',
      `${attached}, and no commit waits for it: a failover forgets the last locks and fences while holders go on`,
      'Use semi-synchronous replication with a long timeout, and let resources check the fence.',
    ),
  ]
}

const durability: Check = (facts, usage) => {
  if (!hasTables(usage)) return [ok('durability', 'nothing is stored: a restart frees all locks')]
  const { variables } = facts
  const findings: Finding[] = []
  const warn = (found: string, advice: string): void => {
    findings.push(finding('warning', 'durability', found, advice))
  }
  const flush = variables.get('innodb_flush_log_at_trx_commit') ?? '1'
  if (flush !== '1') {
    const crash = flush === '0' ? 'a crash of the server' : 'a crash of the machine'
    const found = `\`innodb_flush_log_at_trx_commit\` is ${flush}: ${crash} forgets the locks and fences of about a second`
    warn(found, 'Set it to 1.')
  }
  if (isOn(facts, 'log_bin') && (variables.get('sync_binlog') ?? '1') !== '1') {
    warn('`sync_binlog` is not 1: after a crash of the machine, replicas lack the last locks', 'Set it to 1.')
  }
  if (variables.get('innodb_doublewrite') === 'OFF') {
    warn('`innodb_doublewrite` is off: a crash of the machine can damage the tables', 'Set it to ON.')
  }
  return findings.length > 0 ? findings : [ok('durability', 'every lock is on the disk before it is granted')]
}

const connections: Check = ({ variables, status }, { poolMax }) =>
  checkConnections(numberIn(status, 'Threads_connected'), numberIn(variables, 'max_connections'), poolMax)

const hidden: Check = ({ replicas, sources }) =>
  unseen([
    ...(sources === null ? ['whether it is a replica'] : []),
    ...(replicas === null ? ['which replicas are attached'] : []),
  ])

const CHECKS: readonly Check[] = [
  server,
  recipe,
  role,
  writers,
  isolation,
  timeouts,
  replication,
  durability,
  connections,
  hidden,
]
