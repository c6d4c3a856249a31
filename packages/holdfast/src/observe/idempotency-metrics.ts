import type { IdempotencyEvent, RunOutcome } from '../idempotency/types.js'
import { FirstSight } from './first-sight.js'
import { Presence } from './presence.js'
import type { Counter, Gauge, Histogram, Registry } from './registry.js'

const SECOND_MS = 1_000

const OUTCOMES = Object.keys({
  completed: true,
  failed: true,
  replayed: true,
  'in-progress': true,
  mismatch: true,
  abandoned: true,
  refused: true,
  unprotected: true,
  stale: true,
  aborted: true,
  'store-error': true,
} satisfies Record<RunOutcome, true>)

/** All but those that frame a run, which are counted as runs. */
const EVENTS = Object.keys({
  claimed: true,
  completed: true,
  failed: true,
  released: true,
  replayed: true,
  'in-progress': true,
  mismatch: true,
  takeover: true,
  abandoned: true,
  stale: true,
  'lease-lost': true,
  'complete-failed': true,
  'result-not-kept': true,
  'store-error': true,
  unprotected: true,
  'purge-failed': true,
  'token-issued': true,
  'token-spent': true,
  'token-refused': true,
} satisfies Record<Exclude<IdempotencyEvent['type'], 'started' | 'ended'>, true>)

/** What becomes of the events of keys and tokens. The operation is no label: it is the caller's own, and may be anything. */
export class IdempotencyMetrics {
  readonly #runs: Counter<'backend' | 'outcome'>
  readonly #seconds: Histogram<'backend' | 'outcome'>
  readonly #running: Gauge<'backend'>
  readonly #events: Counter<'event'>
  readonly #present = new Presence()
  readonly #firstOfBackend = new FirstSight()
  #isUsed = false

  constructor(registry: Registry, buckets: readonly number[]) {
    this.#runs = registry.counter({
      name: 'holdfast_idempotency_runs_total',
      help: 'Runs under a key, by how they ended.',
      labels: ['backend', 'outcome'],
    })
    this.#seconds = registry.histogram({
      name: 'holdfast_idempotency_run_seconds',
      help: 'From the call to its outcome.',
      labels: ['backend', 'outcome'],
      buckets,
    })
    this.#running = registry.gauge({
      name: 'holdfast_idempotency_running',
      help: 'Runs that are under way in this process now.',
      labels: ['backend'],
    })
    this.#events = registry.counter({
      name: 'holdfast_idempotency_events_total',
      help: 'What happened to keys and tokens.',
      labels: ['event'],
    })
  }

  see(event: IdempotencyEvent): void {
    const { type, backend = '', run = 0, outcome = '', durationMs = 0 } = event
    this.#start(event)
    if (type === 'started') {
      if (this.#present.enter(run)) this.#running.add({ backend }, 1)
    } else if (type === 'ended') {
      this.#runs.add({ backend, outcome })
      this.#seconds.observe({ backend, outcome }, durationMs / SECOND_MS)
      if (this.#present.leave(run)) this.#running.add({ backend }, -1)
    } else {
      this.#events.add({ event: type })
    }
  }

  /** Only runs say on which store they are; the rest is counted for all stores together. */
  #start({ backend }: IdempotencyEvent): void {
    if (!this.#isUsed) for (const event of EVENTS) this.#events.startAtZero({ event })
    this.#isUsed = true
    if (backend === undefined || !this.#firstOfBackend.of(backend)) return
    for (const outcome of OUTCOMES) this.#runs.startAtZero({ backend, outcome })
  }
}
