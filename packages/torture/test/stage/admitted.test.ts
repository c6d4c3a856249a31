import { describe, expect, it } from 'vitest'
import type { ViolationKind } from '../../src/check/verdict.js'
import { admits, type Promised, type Staged } from '../../src/stage/admitted.js'
import { FAULTS, type FaultName } from '../../src/stage/stage.js'

const LEASE: Promised = { keptBy: 'lease', clock: 'server-wall', fencing: 'best-effort', fair: true }
const ROWS: Promised = { ...LEASE, fencing: 'strict' }
const SESSION: Promised = { keptBy: 'session', clock: 'server-monotonic', fencing: 'strict', fair: true }
const CONNECTION: Promised = { keptBy: 'connection', clock: 'none', fencing: 'best-effort', fair: false }
const MONOTONIC: Promised = { keptBy: 'lease', clock: 'server-monotonic', fencing: 'strict', fair: true }

const REDIS: Staged = { store: 'redis', recipe: 'line' }
const SET_NX: Staged = { store: 'redis', recipe: 'set-nx' }
const SENTINEL: Staged = { store: 'redis-sentinel', recipe: 'line' }
const CLUSTER: Staged = { store: 'redis-cluster', recipe: 'line' }
const POSTGRES: Staged = { store: 'postgres', recipe: 'rows' }
const ADVISORY: Staged = { store: 'postgres', recipe: 'advisory' }
const ZOOKEEPER: Staged = { store: 'zookeeper-ensemble', recipe: 'sequential' }
const ETCD: Staged = { store: 'etcd-cluster', recipe: 'lease' }
const MEMCACHED: Staged = { store: 'memcached', recipe: 'record' }
const SQLITE: Staged = { store: 'sqlite', recipe: 'line' }

const ALL: readonly FaultName[] = FAULTS

describe('what the guarantees admit', () => {
  it.each<[Promised, Staged, readonly FaultName[], ViolationKind]>([
    [LEASE, REDIS, ['clock'], 'overlap'],
    [LEASE, REDIS, ['cut', 'evict'], 'too-many-permits'],
    [LEASE, REDIS, ['clock', 'evict'], 'fence-order'],
    [LEASE, SET_NX, ['clock'], 'fence-order'],
    [LEASE, SENTINEL, ['failover'], 'overlap'],
    [LEASE, SENTINEL, ['server-pause'], 'overlap'],
    [LEASE, SENTINEL, ['server-pause'], 'fence-order'],
    [LEASE, CLUSTER, ['failover'], 'fence-order'],
    [ROWS, POSTGRES, ['clock'], 'reader-beside-writer'],
    [ROWS, POSTGRES, ['pause'], 'lost-update'],
    [CONNECTION, ADVISORY, ['pause', 'cut'], 'tripwire'],
    [CONNECTION, ADVISORY, ['stall', 'cut'], 'overlap'],
    [SESSION, ETCD, ['server-pause'], 'overlap'],
    [SESSION, ZOOKEEPER, ['stall'], 'tripwire'],
    [MONOTONIC, MEMCACHED, ['server-kill'], 'overlap'],
    [MONOTONIC, MEMCACHED, ['evict'], 'overlap'],
    [LEASE, REDIS, ['drop-replies'], 'unfair'],
    [LEASE, REDIS, ['failover-clock'], 'overlap'],
    [LEASE, REDIS, ['failover-clock', 'evict'], 'fence-order'],
    [LEASE, SET_NX, ['failover-clock'], 'fence-order'],
    [LEASE, SENTINEL, ['failover-clock'], 'fence-order'],
    [LEASE, SENTINEL, ['failover-clock'], 'fence-reused'],
    [CONNECTION, ADVISORY, ['half-open'], 'overlap'],
    [CONNECTION, ADVISORY, ['server-swap'], 'tripwire'],
  ])('%o %o %j: %s', (promised, staged, faults, kind) => {
    expect(admits(promised, staged, faults, kind)).toMatch(/\.$/)
  })

  it.each<[Promised, Staged, readonly FaultName[], ViolationKind]>([
    // Without the fault that its page names, nothing is admitted.
    [LEASE, REDIS, [], 'overlap'],
    [LEASE, REDIS, ['kill', 'pause', 'stall', 'cut', 'late', 'duplicate', 'server-kill'], 'overlap'],
    [LEASE, REDIS, ['kill', 'cut', 'server-kill'], 'tripwire'],
    // Fences of `line` go on growing whatever is forgotten, where there is one master, unless the clock is set back as well;
    // and strict ones always.
    [LEASE, REDIS, ALL.filter((fault) => fault !== 'evict'), 'fence-order'],
    [LEASE, REDIS, ALL.filter((fault) => !fault.endsWith('clock')), 'fence-order'],
    [LEASE, REDIS, ['failover-clock'], 'fence-order'],
    // A lease ends by a clock whatever becomes of connections, and a promoted replica that lacks nothing forgets nothing.
    [LEASE, REDIS, ['half-open', 'server-swap'], 'overlap'],
    [ROWS, POSTGRES, ['half-open', 'server-swap'], 'overlap'],
    [SESSION, ZOOKEEPER, ['half-open'], 'overlap'],
    [LEASE, SENTINEL, ['half-open', 'cut', 'late', 'drop-replies', 'duplicate', 'partition'], 'overlap'],
    // Slots move to another master key by key, and nothing is lost.
    [LEASE, CLUSTER, ['reshard', 'half-open', 'partition'], 'overlap'],
    [LEASE, CLUSTER, ['reshard'], 'fence-order'],
    // It is about two holders, and not about fences.
    [CONNECTION, ADVISORY, ['half-open', 'server-swap'], 'fence-order'],
    [CONNECTION, ADVISORY, ['half-open', 'server-swap'], 'stale-write-accepted'],
    [LEASE, REDIS, ALL, 'fence-reused'],
    [LEASE, SENTINEL, ['kill', 'pause', 'stall', 'cut', 'late', 'partition', 'clock'], 'fence-order'],
    [ROWS, SENTINEL, ALL, 'fence-order'],
    [LEASE, SENTINEL, ALL.filter((name) => name !== 'failover-clock'), 'fence-reused'],
    [ROWS, SENTINEL, ALL, 'fence-reused'],
    [ROWS, POSTGRES, ALL, 'fence-order'],
    // A connection does not end because a clock was set, nor because a client stands still.
    [CONNECTION, ADVISORY, ['pause', 'clock'], 'overlap'],
    [CONNECTION, ADVISORY, ['cut', 'server-kill', 'late'], 'overlap'],
    [CONNECTION, ADVISORY, ['pause', 'clock'], 'tripwire'],
    // A majority decides.
    [SESSION, ZOOKEEPER, ALL, 'overlap'],
    [SESSION, ETCD, ['failover', 'partition', 'server-kill', 'cut'], 'overlap'],
    [SESSION, { store: 'etcd', recipe: 'lease' }, ALL, 'overlap'],
    [SESSION, { store: 'consul-cluster', recipe: 'session' }, ALL, 'overlap'],
    // The monotonic clock is not set by anybody.
    [MONOTONIC, SQLITE, ALL, 'overlap'],
    [MONOTONIC, MEMCACHED, ['cut', 'late', 'server-pause', 'clock'], 'overlap'],
    // Nobody may be kept waiting for ever, nor be told too late, nor leave anything behind.
    [LEASE, SENTINEL, ALL, 'stuck-waiter'],
    [LEASE, SENTINEL, ALL, 'abort-late'],
    [LEASE, SENTINEL, ALL, 'leak'],
    [LEASE, SENTINEL, ALL, 'stale-write-accepted'],
    [LEASE, SENTINEL, ALL, 'malformed'],
  ])('not %o %o %j: %s', (promised, staged, faults, kind) => {
    expect(admits(promised, staged, faults, kind)).toBeNull()
  })
})

describe('a connection that is open at the client only', () => {
  it.each([
    [1_000, true],
    [1_001, false],
  ])('admits two holders for %i ms of a ttl of 1000 ms: %s', (lastedMs, isAdmitted) => {
    for (const fault of ['half-open', 'server-swap'] as const) {
      for (const kind of ['overlap', 'too-many-permits', 'reader-beside-writer'] as const) {
        const why = admits(CONNECTION, ADVISORY, [fault], kind, { lastedMs, ttlMs: 1_000 })
        expect(why !== null).toBe(isAdmitted)
      }
    }
  })
})
