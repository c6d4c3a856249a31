import type { Attributes, Counter, Histogram, Meter, UpDownCounter } from '@opentelemetry/api'
import type { AcquisitionEvent, HoldfastEvent } from '../core/events.js'
import type { IdempotencyEvent } from '../idempotency/types.js'
import type { NameGroups } from './name-groups.js'
import { Presence } from './presence.js'
import { SECONDS_BUCKETS } from './registry.js'

const SECOND_MS = 1_000

/** What becomes of the events of locks as instruments of a meter. */
export class LockInstruments {
  readonly #groups: NameGroups | null
  readonly #acquisitions: Counter
  readonly #contention: Counter
  readonly #handOvers: Counter
  readonly #wait: Histogram
  readonly #hold: Histogram
  readonly #releases: Counter
  readonly #losses: Counter
  readonly #held: UpDownCounter
  readonly #waiting: UpDownCounter
  readonly #renewals: Counter
  readonly #renewLag: Histogram
  readonly #renewDuration: Histogram
  readonly #evictions: Counter
  readonly #sleeps: Counter
  readonly #orders: Counter
  readonly #holders = new Presence()
  readonly #waiters = new Presence()

  constructor(meter: Meter, groups: NameGroups | null) {
    this.#groups = groups
    const counter = (name: string, unit: string, description: string): Counter =>
      meter.createCounter(`holdfast.lock.${name}`, { unit, description })
    const present = (name: string, unit: string, description: string): UpDownCounter =>
      meter.createUpDownCounter(`holdfast.lock.${name}`, { unit, description })
    const seconds = (name: string, description: string): Histogram =>
      durations(meter, `holdfast.lock.${name}`, description)
    this.#acquisitions = counter('acquisitions', '{acquisition}', 'Attempts to take a lock, by outcome.')
    this.#contention = counter('contention', '{acquisition}', 'Attempts to take a lock somebody else had.')
    this.#handOvers = counter('handovers', '{handover}', 'Locks handed on in this process.')
    this.#wait = seconds('wait.duration', 'From asking for a lock to the end of the wait for it.')
    this.#hold = seconds('hold.duration', 'From getting a lock to giving it back or losing it.')
    this.#releases = counter('releases', '{release}', 'Locks given back, by what the store said.')
    this.#losses = counter('losses', '{loss}', 'Locks lost before they were given back, by why.')
    this.#held = present('held', '{lock}', 'Locks that this process holds now.')
    this.#waiting = present('waiting', '{caller}', 'Callers in this process that wait for a lock now.')
    this.#renewals = counter('renewals', '{claim}', 'Claims whose lease was to be renewed.')
    this.#renewLag = seconds('renew.lag', 'How late renewals were sent.')
    this.#renewDuration = seconds('renew.duration', 'How long the store took to renew.')
    this.#evictions = counter('evictions', '{eviction}', 'Locks taken away by an operator here.')
    this.#sleeps = counter('sleeps', '{sleep}', 'Times that the machine slept or a clock was set.')
    this.#orders = counter('orders', '{order}', 'Names found to be taken in opposite orders.')
  }

  see(event: HoldfastEvent): void {
    switch (event.type) {
      case 'requested':
        return
      case 'waiting':
        this.#contention.add(1, this.#about(event))
        if (this.#waiters.enter(event.acquisition)) this.#waiting.add(1, this.#about(event))
        return
      case 'granted':
        this.#sought(event)
        if (event.handedOver) this.#handOvers.add(1, this.#about(event))
        if (this.#holders.enter(event.acquisition)) this.#held.add(1, this.#about(event))
        return
      case 'refused':
        this.#contention.add(1, this.#about(event))
        this.#sought(event)
        return
      case 'timed-out':
      case 'aborted':
      case 'failed':
        this.#sought(event)
        return
      case 'released':
        this.#releases.add(1, { ...this.#about(event), 'holdfast.outcome': event.outcome })
        this.#over(event)
        return
      case 'lost':
        this.#losses.add(1, { ...this.#about(event), 'holdfast.reason': event.reason })
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
    const about = { 'holdfast.backend': event.backend }
    switch (event.type) {
      case 'renewed':
        this.#renewals.add(event.claims, { ...about, 'holdfast.result': 'renewed' })
        break
      case 'renewal-failed':
        this.#renewals.add(event.resources.length, { ...about, 'holdfast.result': 'failed' })
        break
      case 'evicted':
        this.#evictions.add(1, about)
        return
      case 'sleep-noticed':
        this.#sleeps.add(1, about)
        return
      case 'lock-order':
        this.#orders.add(1, about)
        return
    }
    this.#renewLag.record(event.lagMs / SECOND_MS, about)
    this.#renewDuration.record(event.durationMs / SECOND_MS, about)
  }

  #sought(event: AcquisitionEvent & { readonly type: string; readonly waitedMs: number }): void {
    const about = { ...this.#about(event), 'holdfast.outcome': event.type }
    this.#acquisitions.add(1, about)
    this.#wait.record(event.waitedMs / SECOND_MS, about)
    if (this.#waiters.leave(event.acquisition)) this.#waiting.add(-1, this.#about(event))
  }

  #over(event: AcquisitionEvent & { readonly heldMs: number }): void {
    this.#hold.record(event.heldMs / SECOND_MS, this.#about(event))
    if (this.#holders.leave(event.acquisition)) this.#held.add(-1, this.#about(event))
  }

  #about({ backend, kind, resource }: AcquisitionEvent): Attributes {
    const about: Attributes = { 'holdfast.backend': backend, 'holdfast.kind': kind }
    if (this.#groups !== null) about['holdfast.lock.group'] = this.#groups.of(resource)
    return about
  }
}

/** What becomes of the events of keys and tokens. */
export class RunInstruments {
  readonly #runs: Counter
  readonly #duration: Histogram
  readonly #running: UpDownCounter
  readonly #events: Counter
  readonly #present = new Presence()

  constructor(meter: Meter) {
    this.#runs = meter.createCounter('holdfast.idempotency.runs', {
      unit: '{run}',
      description: 'Runs under a key, by how they ended.',
    })
    this.#duration = durations(meter, 'holdfast.idempotency.run.duration', 'From the call to its outcome.')
    this.#running = meter.createUpDownCounter('holdfast.idempotency.running', {
      unit: '{run}',
      description: 'Runs that are under way in this process now.',
    })
    this.#events = meter.createCounter('holdfast.idempotency.events', {
      unit: '{event}',
      description: 'What happened to keys and tokens.',
    })
  }

  see(event: IdempotencyEvent): void {
    const { type, backend = '', run = 0, outcome = '', durationMs = 0 } = event
    const about = { 'holdfast.backend': backend }
    if (type === 'started') {
      if (this.#present.enter(run)) this.#running.add(1, about)
    } else if (type === 'ended') {
      const ended = { ...about, 'holdfast.outcome': outcome }
      this.#runs.add(1, ended)
      this.#duration.record(durationMs / SECOND_MS, ended)
      if (this.#present.leave(run)) this.#running.add(-1, about)
    } else {
      this.#events.add(1, { 'holdfast.event': type })
    }
  }
}

function durations(meter: Meter, name: string, description: string): Histogram {
  const advice = { explicitBucketBoundaries: [...SECONDS_BUCKETS] }
  return meter.createHistogram(name, { unit: 's', description, advice })
}
