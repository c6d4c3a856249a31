/** What to make of what a PostgreSQL server tells about itself. Pure: facts in, findings out. */

import type { Finding } from '../../../core/doctor.js'
import { finding, ok } from '../../shared/doctor/findings.js'
import { checkConnections, endsTransactions, inWords, unseen } from '../../sql/doctor/checks.js'
import { type Facts, msIn, type Usage } from './facts.js'

type Check = (facts: Facts, usage: Usage) => readonly Finding[]

/** Older ones get no more fixes. */
const OLDEST_SUPPORTED = 13
/** Others that speak its language, and whose advisory locks, which every recipe relies on, may do nothing. */
const RELATIVES = /CockroachDB|-YB-|Redshift|Materialize|RisingWave/
/** A step waits for others of its kind for milliseconds, and a transaction for up to a second. */
const SHORT_MS = 2_000
/** How often the connection that listens is spoken to, at the latest. */
const SILENT_MS = 10_000

export function checkFacts(facts: Facts, usage: Usage): Finding[] {
  return CHECKS.flatMap((check) => check(facts, usage))
}

/** Whether locks are transactions, which last as long as somebody works under them. */
function inTransactions({ recipe }: Usage): boolean {
  return recipe === 'for-update' || recipe === 'advisory-xact'
}

/** Whether the recipe keeps anything in tables. */
export function hasTables({ recipe }: Usage): boolean {
  return recipe === 'rows' || recipe === 'for-update'
}

const server: Check = ({ version, settings }) => {
  const [, major = '0'] = /^(\d+)/.exec(settings.get('server_version') ?? '') ?? []
  if (!version.startsWith('PostgreSQL ') || RELATIVES.test(version)) {
    const advice = 'Holdfast is tested with PostgreSQL only. Run its conformance suite against this server.'
    return [finding('warning', 'server', `not PostgreSQL itself: ${version.slice(0, 60)}`, advice)]
  }
  const found = `PostgreSQL ${(settings.get('server_version') ?? '').split(' ')[0]}`
  if (Number(major) >= OLDEST_SUPPORTED) return [ok('server', found)]
  const advice = `It gets no fixes any more, and Holdfast is not tested with it. Use ${OLDEST_SUPPORTED} or newer.`
  return [finding('warning', 'server', found, advice)]
}

const WORDS: Readonly<Record<Usage['recipe'], string>> = {
  rows: 'a line in a table',
  advisory: 'session locks, which need no table',
  'for-update': 'rows that are locked by a transaction',
  'advisory-xact': 'locks of a transaction, which need no table',
}

const recipe: Check = (_facts, usage) => {
  const wake = usage.recipe === 'rows' ? `, wake=${usage.wake}` : ''
  return [ok('recipe', `${usage.recipe}: ${WORDS[usage.recipe]}${wake}`)]
}

const role: Check = ({ isStandby, settings }) => {
  if (isStandby) {
    const found = 'this is a standby: it takes no writes'
    return [finding('danger', 'role', found, 'Connect to the primary.')]
  }
  if (settings.get('transaction_read_only') !== 'on') return [ok('role', 'primary, and takes writes')]
  const advice = 'Set `default_transaction_read_only` to off for the role or the database.'
  return [finding('danger', 'role', 'transactions are read-only, so nothing can be locked', advice)]
}

const isolation: Check = ({ settings }, usage) => {
  const level = settings.get('default_transaction_isolation') ?? 'unknown'
  if (usage.recipe !== 'rows' || level === 'read committed') return [ok('isolation', level)]
  return [
    finding(
      'note',
      'isolation',
      `${level} by default, under which a lock cannot be seen in time`,
      'Connections that Holdfast opens by a URL set it right. A ready pool needs ' +
        "`options: '-c default_transaction_isolation=read\\\\ committed'`, or is refused.",
    ),
  ]
}

const timeouts: Check = (facts, usage) => {
  const found = [...stepTimeouts(facts, usage), ...idleTimeouts(facts, usage)]
  return found.length > 0 ? found : [ok('timeouts', 'none that cuts a lock short')]
}

/** Session locks are never waited for in the server, and their connection sets its own timeouts. */
function stepTimeouts(facts: Facts, usage: Usage): Finding[] {
  if (usage.recipe === 'advisory') return []
  const settings = ['statement_timeout', ...(usage.recipe === 'rows' ? ['lock_timeout'] : [])]
  return settings.flatMap((name) => {
    const ms = msIn(facts, name)
    if (ms === 0 || ms >= SHORT_MS) return []
    const found = `\`${name}\` of ${inWords(ms)}: an acquire fails where it would have to wait for a moment`
    const advice = `Set it to ${inWords(SHORT_MS)} or more, or to 0, for the role that Holdfast uses.`
    return [finding('warning', 'timeouts', found, advice)]
  })
}

function idleTimeouts(facts: Facts, usage: Usage): Finding[] {
  if (inTransactions(usage)) {
    const idle = msIn(facts, 'idle_in_transaction_session_timeout')
    const whole = msIn(facts, 'transaction_timeout')
    return [
      ...(idle > 0
        ? [
            endsTransactions(
              'idle_in_transaction_session_timeout',
              idle,
              'a transaction in which nothing is done',
            ),
          ]
        : []),
      ...(whole > 0 ? [endsTransactions('transaction_timeout', whole, 'every transaction')] : []),
    ]
  }
  const ms = msIn(facts, 'idle_session_timeout')
  if (usage.recipe !== 'rows' || ms === 0) return []
  const found = `\`idle_session_timeout\` of ${inWords(ms)} closes idle connections`
  if (usage.wake === 'notify' && ms <= SILENT_MS) {
    const advice = `Set it above ${inWords(SILENT_MS)}, or to 0, for the role that Holdfast uses.`
    return [finding('warning', 'timeouts', `${found}, and the one that listens: grants come late`, advice)]
  }
  const advice = 'They are opened again when they are needed, which costs the first request some time.'
  return [finding('note', 'timeouts', found, advice)]
}

const activity: Check = ({ settings }, usage) => {
  if (!inTransactions(usage) || settings.get('track_activities') !== 'off') return []
  const found =
    '`track_activities` is off: it cannot be seen which transactions are alive, so every lock counts as lost'
  return [finding('danger', 'activity', found, 'Set `track_activities` to on.')]
}

const replication: Check = ({ standbys, settings, isStandby }, usage) => {
  if (isStandby) return []
  const names = settings.get('synchronous_standby_names') ?? ''
  const commit = settings.get('synchronous_commit') ?? 'on'
  const inTime = standbys.filter((state) => state === 'sync' || state === 'quorum').length
  const waits = names !== '' && commit !== 'local' && commit !== 'off'
  const areSeen = standbys.every((state) => state !== null)
  if (waits && inTime === 0 && areSeen && hasTables(usage)) {
    const found =
      '`synchronous_standby_names` asks for a standby that is not attached: every commit waits for it'
    return [finding('danger', 'replication', found, 'Attach it, or take it out of the list.')]
  }
  if (standbys.length === 0) return [ok('replication', 'no standby: no failover can forget a lock')]
  const attached = `${standbys.length === 1 ? '1 standby' : `${standbys.length} standbys`} attached`
  if (usage.recipe === 'for-update') {
    return [ok('replication', `${attached}; what is not copied in time is lost with its lock, and not alone`)]
  }
  if (!hasTables(usage)) {
    const advice =
      'Holders hear of a failover when their connection ends. Use the recipe `rows` if that is not enough.'
    const found = `${attached}, and these locks are not copied: a failover frees all of them`
    return [finding('warning', 'replication', found, advice)]
  }
  if (waits && (inTime > 0 || !areSeen)) return [ok('replication', `${attached}, ${inTime} must confirm`)]
  return [
    finding(
      'warning',
      'replication',
      `${attached}, and no commit waits for it: a failover forgets the last locks and fences while holders go on`,
      'Set `synchronous_standby_names`, and leave `synchronous_commit` on for the role that Holdfast uses.',
    ),
  ]
}

const durability: Check = ({ settings }, usage) => {
  if (!hasTables(usage)) return [ok('durability', 'nothing is stored: a restart frees all locks')]
  const findings: Finding[] = []
  const warn = (found: string, advice: string): void => {
    findings.push(finding('warning', 'durability', found, advice))
  }
  const after = 'a crash of the machine'
  if (settings.get('fsync') === 'off')
    warn(`\`fsync\` is off: ${after} can lose or damage every lock and every fence`, 'Set `fsync` to on.')
  if (settings.get('full_page_writes') === 'off')
    warn(`\`full_page_writes\` is off: ${after} can damage the tables`, 'Set `full_page_writes` to on.')
  if (settings.get('synchronous_commit') === 'off') {
    warn(
      '`synchronous_commit` is off: a crash of the server forgets the last locks and fences while holders go on',
      'Set `synchronous_commit` to on for the role that Holdfast uses.',
    )
  }
  return findings.length > 0 ? findings : [ok('durability', 'every lock is on the disk before it is granted')]
}

const connections: Check = ({ backends, settings }, { poolMax }) => {
  const setting = (name: string): number => Number(settings.get(name) ?? 0)
  const reserved = setting('superuser_reserved_connections') + setting('reserved_connections')
  return checkConnections(backends, setting('max_connections') - reserved, poolMax)
}

const hidden: Check = (facts) => unseen(facts.hidden)

const CHECKS: readonly Check[] = [
  server,
  recipe,
  role,
  isolation,
  timeouts,
  activity,
  replication,
  durability,
  connections,
  hidden,
]
