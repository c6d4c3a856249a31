import type { LockLostReason } from '../core/errors.js'
import type { AcquisitionEvent, GrantedEvent, HoldfastEvent } from '../core/events.js'
import { FirstSight } from './first-sight.js'
import type { NameGroups } from './name-groups.js'
import { Presence } from './presence.js'
import type { Counter, Gauge, Histogram, Labels, Registry } from './registry.js'

/** What tells the locks of a family apart. `lock` is there only where the caller has said how to group names. */
type Lock = 'backend' | 'kind' | 'lock'

const SECOND_MS = 1_000

const LOSS_REASONS = Object.keys({
  expired: true,
  evicted: true,
  'session-ended': true,
  'connection-closed': true,
  'transaction-ended': true,
  'max-hold': true,
  closed: true,
} satisfies Record<LockLostReason, true>)

/** What becomes of the events of locks. */
export class LockMetrics {
  readonly #groups: NameGroups | null
  readonly #acquisitions: Counter<Lock | 'outcome'>
  readonly #contended: Counter<Lock>
  readonly #handOvers: Counter<Lock>
  readonly #waits: Histogram<Lock | 'outcome'>
  readonly #holds: Histogram<Lock>
  readonly #releases: Counter<Lock | 'outcome'>
  readonly #losses: Counter<Lock | 'reason'>
  readonly #held: Gauge<Lock>
  readonly #waiting: Gauge<Lock>
  readonly #renewals: Counter<'backend' | 'result'>
  readonly #renewLag: Histogram<'backend'>
  readonly #renewDuration: Histogram<'backend'>
  readonly #evictions: Counter<'backend'>
  readonly #sleeps: Counter<'backend'>
  readonly #orders: Counter<'backend'>
  readonly #holders = new Presence()
  readonly #waiters = new Presence()
  readonly #firstOfBackend = new FirstSight()
  readonly #firstOfLocks = new FirstSight()

  constructor(registry: Registry, groups: NameGroups | null, buckets: readonly number[]) {
    this.#groups = groups
    const lock: Lock[] = groups === null ? ['backend', 'kind'] : ['backend', 'kind', 'lock']
    const counter = <L extends string>(name: string, help: string, labels: readonly L[]): Counter<L> =>
      registry.counter({ name: `holdfast_${name}_total`, help, labels })
    const gauge = <L extends string>(name: string, help: string, labels: readonly L[]): Gauge<L> =>
      registry.gauge({ name: `holdfast_${name}`, help, labels })
    const seconds = <L extends string>(name: string, help: string, labels: readonly L[]): Histogram<L> =>
      registry.histogram({ name: `holdfast_${name}_seconds`, help, labels, buckets })
    const withOutcome = [...lock, 'outcome'] as const
    this.#acquisitions = counter('acquisitions', 'Attempts to take a lock, by how they ended.', withOutcome)
    this.#contended = counter('contended', 'Attempts to take a lock that somebody else had.', lock)
    this.#handOvers = counter('handovers', 'Locks handed on in this process without the store.', lock)
    this.#waits = seconds('wait', 'From asking for a lock to the end of the wait for it.', withOutcome)
    this.#holds = seconds('hold', 'From getting a lock to giving it back or losing it.', lock)
    this.#releases = counter('releases', 'Locks given back, by what the store said.', withOutcome)
    this.#losses = counter('losses', 'Locks lost before they were given back, by why.', [...lock, 'reason'])
    this.#held = gauge('held', 'Locks that this process holds now.', lock)
    this.#waiting = gauge('waiting', 'Callers in this process that wait for a lock now.', lock)
    this.#renewals = counter('renewals', 'Claims whose lease was to be renewed.', ['backend', 'result'])
    this.#renewLag = seconds('renew_lag', 'How late renewals were sent.', ['backend'])
    this.#renewDuration = seconds('renew_duration', 'How long the store took to renew.', ['backend'])
    this.#evictions = counter('evictions', 'Locks taken away by an operator here.', ['backend'])
    this.#sleeps = counter('sleeps', 'Times that the machine slept or a clock was set.', ['backend'])
    this.#orders = counter('lock_orders', 'Names found to be taken in opposite orders.', ['backend'])
  }

  see(event: HoldfastEvent): void {
    if (this.#firstOfBackend.of(event.backend)) this.#startBackend(event.backend)
    switch (event.type) {
      case 'requested':
        return
      case 'waiting':
        this.#contended.add(this.#lockOf(event))
        if (this.#waiters.enter(event.acquisition)) this.#waiting.add(this.#lockOf(event), 1)
        return
      case 'granted':
        this.#sought(event)
        this.#got(event)
        return
      case 'refused':
        this.#contended.add(this.#lockOf(event))
        this.#sought(event)
        return
      case 'timed-out':
      case 'aborted':
      case 'failed':
        this.#sought(event)
        return
      case 'released':
        this.#releases.add({ ...this.#lockOf(event), outcome: event.outcome })
        this.#over(event)
        return
      case 'lost':
        this.#losses.add({ ...this.#lockOf(event), reason: event.reason })
        this.#over(event)
        return
      case 'renewed':
      case 'renewal-failed':
      case 'evicted':
      case 'sleep-noticed':
      case 'lock-order':
        this.#upkeep(event)
    }
  }

  #upkeep(event: Exclude<HoldfastEvent, AcquisitionEvent>): void {
    const { backend } = event
    switch (event.type) {
      case 'renewed':
        this.#renewals.add({ backend, result: 'renewed' }, event.claims)
        break
      case 'renewal-failed':
        this.#renewals.add({ backend, result: 'failed' }, event.resources.length)
        break
      case 'evicted':
        this.#evictions.add({ backend })
        return
      case 'sleep-noticed':
        this.#sleeps.add({ backend })
        return
      case 'lock-order':
        this.#orders.add({ backend })
        return
    }
    this.#renewLag.observe({ backend }, event.lagMs / SECOND_MS)
    this.#renewDuration.observe({ backend }, event.durationMs / SECOND_MS)
  }

  /** A caller has asked and got its answer, whichever. */
  #sought(event: AcquisitionEvent & { readonly type: string; readonly waitedMs: number }): void {
    const labels = { ...this.#lockOf(event), outcome: event.type }
    this.#acquisitions.add(labels)
    this.#waits.observe(labels, event.waitedMs / SECOND_MS)
    if (this.#waiters.leave(event.acquisition)) this.#waiting.add(this.#lockOf(event), -1)
  }

  #got(event: GrantedEvent): void {
    const lock = this.#lockOf(event)
    if (this.#firstOfLocks.of(`${lock.backend}\n${lock.kind}\n${lock.lock}`)) this.#startLosses(lock)
    if (event.handedOver) this.#handOvers.add(lock)
    if (this.#holders.enter(event.acquisition)) this.#held.add(lock, 1)
  }

  #over(event: AcquisitionEvent & { readonly heldMs: number }): void {
    this.#holds.observe(this.#lockOf(event), event.heldMs / SECOND_MS)
    if (this.#holders.leave(event.acquisition)) this.#held.add(this.#lockOf(event), -1)
  }

  /** What is held can be lost. */
  #startLosses(lock: Labels<Lock>): void {
    for (const reason of LOSS_REASONS) this.#losses.startAtZero({ ...lock, reason })
  }

  #startBackend(backend: string): void {
    for (const counter of [this.#evictions, this.#sleeps, this.#orders]) counter.startAtZero({ backend })
    for (const result of ['renewed', 'failed']) this.#renewals.startAtZero({ backend, result })
  }

  #lockOf({ backend, kind, resource }: AcquisitionEvent): Labels<Lock> {
    return { backend, kind, lock: this.#groups?.of(resource) ?? '' }
  }
}
