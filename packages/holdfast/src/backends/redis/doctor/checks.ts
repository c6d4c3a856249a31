/** What to make of what a server tells about itself. Pure: facts in, findings out. */

import type { Finding } from '../../../core/doctor.js'
import { count, finding, ok } from '../../shared/doctor/findings.js'
import { type Facts, numberIn } from './probe.js'

/** How the server is used, as far as that decides what is good for it. */
export interface Usage {
  readonly recipe: 'line' | 'set-nx' | 'redlock'
  readonly waitReplicas: number
  /** Whether a server that was restarted is believed at once, which only a redlock has to decide. */
  readonly trustsRestarted: boolean
  /** Whether the client knows that it talks to a cluster. */
  readonly isCluster: boolean
}

type Check = (facts: Facts, usage: Usage) => readonly Finding[]

/** Older ones get no more fixes. */
const OLDEST_SUPPORTED = [6, 2] as const
const NEARLY_FULL = 0.9
const CROWDED = 0.8

export function checkFacts(facts: Facts, usage: Usage): Finding[] {
  return CHECKS.flatMap((check) => check(facts, usage))
}

const server: Check = ({ info }) => {
  const valkey = info.get('valkey_version')
  const version = info.get('redis_version')
  if (valkey !== undefined) return [ok('server', `Valkey ${valkey}`)]
  if (version === undefined) return []
  if (info.has('dragonfly_version')) {
    const advice =
      'Holdfast is tested with Redis and Valkey only. Run its conformance suite against this server.'
    return [finding('note', 'server', `Dragonfly, which presents itself as Redis ${version}`, advice)]
  }
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [oldestMajor, oldestMinor] = OLDEST_SUPPORTED
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor))
    return [ok('server', `Redis ${version}`)]
  const advice = `It gets no fixes any more. Use Redis ${OLDEST_SUPPORTED.join('.')} or newer, or Valkey.`
  return [finding('warning', 'server', `Redis ${version}`, advice)]
}

const role: Check = ({ info }) => {
  const found = info.get('role')
  if (found === undefined) return []
  if (found !== 'slave') return [ok('role', found)]
  return [
    finding(
      'danger',
      'role',
      'this is a replica: it takes no writes, or loses them',
      'Connect to the master, or let Sentinel find it: `redis+sentinel://`.',
    ),
  ]
}

const cluster: Check = ({ info }, { isCluster }) => {
  if (info.get('cluster_enabled') !== '1' || isCluster) return []
  return [
    finding(
      'danger',
      'cluster',
      'this is a node of a cluster, but the client takes it for a single server: most names will be refused',
      'Use `redis+cluster://`, or a cluster client.',
    ),
  ]
}

const replicas: Check = ({ info, config }, { waitReplicas, recipe }) => {
  const attached = numberIn(info, 'connected_slaves')
  if (attached === null || info.get('role') === 'slave') return []
  if (waitReplicas > attached) {
    return [
      finding(
        'danger',
        'replicas',
        `${attached} attached, but \`waitReplicas\` asks for ${waitReplicas}: nothing can be acquired`,
        'Attach more replicas, or lower `waitReplicas`.',
      ),
    ]
  }
  if (attached === 0) return [ok('replicas', 'none: no failover can lose a lock')]
  if (waitReplicas > 0) return [ok('replicas', `${attached} attached, ${waitReplicas} must confirm`)]
  const least = Number(config.get('min-replicas-to-write') ?? 0)
  const writes = least > 0 ? `; writes need ${least} of them to be attached` : ''
  return [
    finding(
      'warning',
      'replicas',
      `${count(attached, 'replica')} attached, and nobody waits for ${attached === 1 ? 'it' : 'them'}${writes}: ` +
        'a failover forgets the last locks while their holders go on',
      recipe === 'line'
        ? 'Set `waitReplicas: 1` or more, have `min-replicas-to-write` keep a cut-off master from writing, and let ' +
            'resources check the fence.'
        : 'The recipe `line` can wait for replicas. With any other, let a failover wait until the longest lease is over.',
    ),
  ]
}

const eviction: Check = ({ info }) => {
  const policy = info.get('maxmemory_policy')
  const limit = numberIn(info, 'maxmemory')
  if (policy === undefined || limit === null) return []
  if (policy === 'noeviction') {
    const used = numberIn(info, 'used_memory') ?? 0
    if (limit === 0 || used < limit * NEARLY_FULL) return [ok('eviction', 'never')]
    const full = `never, but ${Math.round((used / limit) * 100)} % of \`maxmemory\` is in use: at 100 % nothing can be locked`
    return [finding('warning', 'eviction', full, 'Raise `maxmemory`, or free some.')]
  }
  const advice = 'Set `maxmemory-policy noeviction`, or give the locks a server of their own.'
  if (limit === 0) {
    const found = `${policy}, though without \`maxmemory\`, so nothing is evicted yet`
    return [finding('note', 'eviction', found, `If ever \`maxmemory\` is set, locks can vanish. ${advice}`)]
  }
  const evicted = numberIn(info, 'evicted_keys') ?? 0
  const so = evicted > 0 ? ` (${count(evicted, 'key')} evicted so far)` : ''
  return [finding('danger', 'eviction', `${policy}: a lock can vanish while it is held${so}`, advice)]
}

const persistence: Check = ({ info, config }, { recipe, trustsRestarted }) => {
  const failed = ['rdb_last_bgsave_status', 'aof_last_bgrewrite_status', 'aof_last_write_status'].filter(
    (name) => info.get(name) === 'err',
  )
  if (failed.length > 0) {
    const found = `the server fails to write to its disk (${failed.join(', ')})`
    return [
      finding(
        'warning',
        'persistence',
        found,
        'See its log. It may refuse to take locks until this is solved.',
      ),
    ]
  }
  const aof = info.get('aof_enabled')
  if (aof === undefined) return []
  const [found, kept] = whatIsKept(aof === '1', config.get('appendfsync'), config.get('save'))
  if (kept === 'all') return [ok('persistence', found)]
  if (recipe === 'redlock') {
    if (!trustsRestarted)
      return [ok('persistence', `${found}; until the longest lease is over it has no say`)]
    const advice =
      'Leave `restartDelayMs` at its default, so that a server that was restarted has no say until the longest lease ' +
      'is over; or set `appendonly yes` and `appendfsync always`.'
    return [finding('danger', 'persistence', `${found}, and is believed at once`, advice)]
  }
  const advice =
    'Set `appendonly yes` with `appendfsync always` where a restart must keep every lock, and let resources check ' +
    'the fence: it goes on growing.'
  return [finding(kept === 'nothing' ? 'warning' : 'note', 'persistence', found, advice)]
}

function whatIsKept(
  aof: boolean,
  fsync: string | undefined,
  save: string | undefined,
): [found: string, kept: 'all' | 'most' | 'nothing'] {
  if (aof && fsync === 'always') return ['every lock is on the disk before it is granted', 'all']
  if (aof && fsync === 'no')
    return ['a crash of the machine forgets what the system has not written yet', 'most']
  if (aof) return ['a crash of the machine forgets the locks of about the last second', 'most']
  if (save === '') return ['none: a restart forgets all locks while their holders go on', 'nothing']
  return ['snapshots only: a restart forgets the locks since the last one', 'most']
}

const clients: Check = ({ info }) => {
  const connected = numberIn(info, 'connected_clients')
  const most = numberIn(info, 'maxclients')
  if (connected === null || most === null || most === 0) return []
  const found = `${connected} of ${most} connections in use`
  if (connected < most * CROWDED) return [ok('clients', found)]
  const advice =
    'Raise `maxclients`. Each Holdfast client uses two connections, and a refused one cannot renew its locks.'
  return [finding('warning', 'clients', found, advice)]
}

const idle: Check = ({ config }) => {
  const seconds = Number(config.get('timeout') ?? 0)
  if (!(seconds > 0)) return []
  return [
    finding(
      'note',
      'idle',
      `connections that are idle for ${seconds} s are closed`,
      'They are opened again when they are needed, which costs the first request some time. `timeout 0` avoids it.',
    ),
  ]
}

const hidden: Check = (facts) => {
  if (facts.hidden.length === 0) return []
  const unseen = [
    ...(facts.hidden.includes('INFO') ? ['version', 'role', 'replicas', 'eviction', 'clients'] : []),
    ...(facts.hidden.includes('CONFIG') ? ['snapshots', '`appendfsync`', '`timeout`'] : []),
  ]
  return [
    finding(
      'note',
      'insight',
      `not allowed to look: ${facts.hidden.join(' and ')} ${facts.hidden.length === 1 ? 'is' : 'are'} refused, so ` +
        `nothing is known about ${unseen.join(', ')}`,
      'Run this once as a user who may, or look the settings up where the server is managed.',
    ),
  ]
}

const CHECKS: readonly Check[] = [
  server,
  role,
  cluster,
  replicas,
  eviction,
  persistence,
  clients,
  idle,
  hidden,
]
