import { asyncContexts } from '../core/async-context.js'
import type { Clock, Identity, Random, Runtime, Timer, Timers } from '../core/runtime.js'

interface Event {
  readonly at: number
  readonly order: number
  run: (() => void) | null
}

/**
 * Time that passes only when it is told to. Events run in order of time, and of scheduling where the times are equal,
 * so that a run can be repeated exactly.
 */
export class VirtualTime {
  #now = 0
  #order = 0
  #pending = 0
  readonly #heap: Event[] = []
  #seeds = 0

  get nowMs(): number {
    return this.#now
  }

  /** How many events are still to come. */
  get pending(): number {
    return this.#pending
  }

  /** A seed for each runtime on this time: 1, 2, and so on, whatever else the process has run before. */
  nextSeed(): number {
    this.#seeds += 1
    return this.#seeds
  }

  schedule(atMs: number, run: () => void): Timer {
    const event: Event = { at: Math.max(atMs, this.#now), order: this.#order++, run }
    this.#push(event)
    this.#pending += 1
    return {
      cancel: () => {
        if (event.run === null) return
        event.run = null
        this.#pending -= 1
      },
    }
  }

  /** Runs the next event, if there is one no later than `untilMs`. Let microtasks run before the next call: see `settle`. */
  step(untilMs = Number.POSITIVE_INFINITY): boolean {
    for (;;) {
      const next = this.#heap[0]
      if (next === undefined || next.at > untilMs) return false
      this.#pop()
      if (next.run === null) continue
      this.#now = next.at
      this.#pending -= 1
      const { run } = next
      next.run = null
      run()
      return true
    }
  }

  /** Lets `ms` pass, running everything that falls due, and what follows from it. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms
    await settle()
    while (this.step(until)) await settle()
    this.#now = until
  }

  #push(event: Event): void {
    const heap = this.#heap
    let index = heap.push(event) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!isBefore(event, heap[parent] as Event)) break
      heap[index] = heap[parent] as Event
      index = parent
    }
    heap[index] = event
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop() as Event
    if (heap.length === 0) return
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) child += 1
      if (!isBefore(heap[child] as Event, last)) break
      heap[index] = heap[child] as Event
      index = child
    }
    heap[index] = last
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}

/** Lets every promise that can settle do so. */
export function settle(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

/** Chance that a seed repeats. Not for secrets. */
export class SeededRandom implements Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** Mulberry32: small, quick, and good enough to shake a schedule. */
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  id(): string {
    let text = ''
    while (text.length < 32)
      text += Math.floor(this.fraction() * 2 ** 32)
        .toString(16)
        .padStart(8, '0')
    return text
  }

  between(low: number, high: number): number {
    return low + this.fraction() * (high - low)
  }

  whole(low: number, high: number): number {
    return Math.floor(this.between(low, high + 1))
  }

  chance(probability: number): boolean {
    return this.fraction() < probability
  }

  pick<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.fraction() * choices.length)] as T
  }
}

let nextIds = 1

/** Two runtimes of one seed would make the same claim ids, so the ids have a seed that no other runtime of the process has. */
class UniqueIds extends SeededRandom {
  readonly #ids = new SeededRandom(nextIds++)

  override id(): string {
    return this.#ids.id()
  }
}

/** A runtime on virtual time, for tests of code that uses locks: `createLocks(backend, options, new VirtualRuntime())`. */
export class VirtualRuntime implements Runtime {
  readonly time: VirtualTime
  readonly identity: Identity = { host: 'virtual', pid: 1 }
  readonly random: Random
  /** What `wallMs` shows beyond virtual time: set it to step the wall clock. */
  wallStepMs = 0

  readonly clock: Clock = {
    monotonicMs: () => this.time.nowMs,
    wallMs: () => this.time.nowMs + this.wallStepMs,
    uptimeMs: () => this.time.nowMs,
  }

  readonly timers: Timers = {
    start: (afterMs, run) => this.time.schedule(this.time.nowMs + afterMs, run),
  }

  readonly contexts = asyncContexts

  /** With a seed, a run can be repeated exactly; without one, all but the claim ids. Runtimes on one time need different seeds. */
  constructor(time: VirtualTime = new VirtualTime(), seed?: number) {
    this.time = time
    this.random = seed === undefined ? new UniqueIds(time.nextSeed()) : new SeededRandom(seed)
  }
}
