/**
 * What a recipe does not promise. A violation that its page in `docs/backends` foretells for a fault of the run is told, and
 * the run still passes; everything else fails it. A rule here repeats a sentence of those pages, and adds none.
 */

import type { Guarantees } from 'holdfast'
import type { ViolationKind } from '../check/verdict.js'
import type { FaultName, Stage } from './stage.js'

/** What of the guarantees decides. */
export type Promised = Pick<Guarantees, 'keptBy' | 'clock' | 'fencing' | 'fair'>

/** Which recipe of which store. */
export type Staged = Pick<Stage, 'store' | 'recipe'>

interface Rule {
  readonly kinds: readonly ViolationKind[]
  /** One of these was done. */
  readonly faults: readonly FaultName[]
  /** And one of these as well, where it takes two. */
  readonly together?: readonly FaultName[]
  readonly holds: (promised: Promised, staged: Staged) => boolean
  /** It is admitted only if the callers held the lock together for no longer than a lease. */
  readonly upToTtl?: true
  readonly why: string
}

/** For how long the callers of a violation held the lock at the same time, and the lease that they asked for. */
export interface Together {
  readonly lastedMs: number
  readonly ttlMs: number
}

/** Two who have it at once, and what comes of that. */
const EXCLUSION: readonly ViolationKind[] = [
  'overlap',
  'too-many-permits',
  'reader-beside-writer',
  'reentrancy',
  'not-linearizable',
  'tripwire',
  'lost-update',
  'executed-twice',
]
/** A line that was forgotten has no order either. */
const LINE: readonly ViolationKind[] = [...EXCLUSION, 'unfair']
const FENCES: readonly ViolationKind[] = ['fence-order', 'fence-reused']
/** What is seen only where the resource itself does not check the fence. */
const UNGUARDED: readonly ViolationKind[] = ['tripwire', 'lost-update']

/** Violations whose length is that of holds that overlap. The others are consequences of such an overlap. */
const HELD_TOGETHER: readonly ViolationKind[] = ['overlap', 'too-many-permits', 'reader-beside-writer']

const STANDSTILLS: readonly FaultName[] = ['pause', 'stall']
/** What parts a client from its servers for a time, or ends its connections. */
const SILENCES: readonly FaultName[] = [
  'cut',
  'drop-requests',
  'drop-replies',
  'late',
  'duplicate',
  'half-open',
  'server-kill',
  'server-pause',
  'failover',
  'server-swap',
  'partition',
]
/** A server is gone, and connections to it stay open at the client. */
const UNNOTICED: readonly FaultName[] = ['half-open', 'server-swap']
/** Another Redis server becomes the master. */
const PROMOTIONS: readonly FaultName[] = ['failover', 'failover-clock', 'server-kill', 'server-pause']

/** Their fence is the server's time, and nothing remembers the last one. */
const CLOCK_FENCES = new Set(['set-nx', 'advisory', 'advisory-xact', 'get-lock'])
export const REDIS_GROUPS: ReadonlySet<string> = new Set(['redis-sentinel', 'redis-cluster'])

const isRedis = (store: string): boolean => store === 'redis' || REDIS_GROUPS.has(store)

const RULES: readonly Rule[] = [
  {
    kinds: LINE,
    faults: ['clock'],
    holds: ({ keptBy, clock }) => keptBy === 'lease' && clock === 'server-wall',
    why: "The server's clock was set, and one that is set forward ends leases early.",
  },
  {
    kinds: LINE,
    faults: ['failover-clock'],
    holds: (_, { store }) => isRedis(store),
    why: "A replica that is promoted with a clock ahead of the old master's ends all leases early by the difference.",
  },
  {
    kinds: FENCES,
    faults: ['clock', 'failover-clock'],
    holds: ({ fencing }, { recipe }) => fencing === 'best-effort' && CLOCK_FENCES.has(recipe),
    why: "Fences are the server's time, and its clock was set back.",
  },
  {
    kinds: ['fence-reused'],
    faults: ['failover-clock'],
    holds: ({ fencing }, { store }) => fencing === 'best-effort' && REDIS_GROUPS.has(store),
    why: 'The new master lacks the last fences, and its clock is behind the one that made them.',
  },
  {
    kinds: ['fence-order'],
    faults: ['clock', 'failover-clock'],
    together: ['evict'],
    holds: ({ fencing }, { store, recipe }) =>
      fencing === 'best-effort' && isRedis(store) && recipe === 'line',
    why: 'An eviction removed the last fence, and the clock that makes the next one was set back, or is behind.',
  },
  {
    kinds: LINE,
    faults: PROMOTIONS,
    holds: (_, { store }) => REDIS_GROUPS.has(store),
    why: 'Replication is asynchronous, so a failover can forget a lock.',
  },
  {
    kinds: ['fence-order'],
    faults: PROMOTIONS,
    holds: ({ fencing }, { store }) => fencing === 'best-effort' && REDIS_GROUPS.has(store),
    why: 'While two servers are masters, who waits at the one keeps a lower fence than others get at the other.',
  },
  {
    kinds: LINE,
    faults: ['evict'],
    holds: (_, { store }) => isRedis(store) || store === 'memcached',
    why: 'A server that is out of memory drops locks that are held.',
  },
  {
    kinds: LINE,
    faults: ['server-kill'],
    holds: (_, { store }) => store === 'memcached',
    why: 'memcached keeps nothing, so a restart frees every lock.',
  },
  {
    kinds: EXCLUSION,
    faults: ['server-pause'],
    holds: (_, { store }) => store === 'etcd-cluster',
    why: 'etcd before 3.4.31 and 3.5.13 can end leases that are alive when a leader was paused.',
  },
  {
    kinds: UNGUARDED,
    faults: STANDSTILLS,
    holds: ({ keptBy }) => keptBy !== 'connection',
    why: 'A holder stood still beyond its lease, and only a fence keeps off what it does when it wakes up.',
  },
  {
    kinds: UNGUARDED,
    faults: STANDSTILLS,
    together: SILENCES,
    holds: ({ keptBy }) => keptBy === 'connection',
    why: 'A holder stood still while its connection ended, and only a fence keeps off what it does when it wakes up.',
  },
  {
    kinds: EXCLUSION,
    faults: STANDSTILLS,
    together: SILENCES,
    holds: ({ keptBy }) => keptBy === 'connection',
    why: 'A connection ended while its process stood still: the server frees at once, and the process hears of it later.',
  },
  {
    kinds: EXCLUSION,
    faults: UNNOTICED,
    holds: ({ keptBy }) => keptBy === 'connection',
    upToTtl: true,
    why: 'The server vanished without closing the connection: until the next renewal, or the end of the ttl, two processes can hold the lock.',
  },
  {
    kinds: ['unfair'],
    faults: [...STANDSTILLS, ...SILENCES],
    holds: ({ fair }) => fair,
    why: 'Whoever waits and is not heard from for its lease is passed over.',
  },
  {
    kinds: ['unexplained-loss'],
    faults: ['pause'],
    holds: (_, { store }) => store === 'sqlite',
    why: 'A process that is stopped inside a transaction of SQLite keeps the write lock of the file, and blocks all others.',
  },
]

/**
 * Why a recipe's declared guarantees admit a violation of this kind after these faults, in one sentence; null if they do
 * not.
 */
export function admits(
  promised: Promised,
  staged: Staged,
  faultsUsed: Iterable<FaultName>,
  kind: ViolationKind,
  together?: Together,
): string | null {
  const used = new Set(faultsUsed)
  const isBrief =
    together === undefined || !HELD_TOGETHER.includes(kind) || together.lastedMs <= together.ttlMs
  const happened = (faults: readonly FaultName[]): boolean => faults.some((fault) => used.has(fault))
  const found = RULES.find(
    ({ kinds, faults, together: others, holds, upToTtl }) =>
      kinds.includes(kind) &&
      happened(faults) &&
      (others === undefined || happened(others)) &&
      (upToTtl === undefined || isBrief) &&
      holds(promised, staged),
  )
  return found?.why ?? null
}
