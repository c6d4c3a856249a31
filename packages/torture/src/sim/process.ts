import type { Locks } from 'holdfast'
import type { Runtime, Timer } from 'holdfast/backend'
import type { SeededRandom, VirtualTime } from 'holdfast/testing'
import { simContexts } from './contexts.js'

/** The longest that a timer is in the queue of virtual time at once. */
const HOP_MS = 600_000

/**
 * A process of the simulated world: its own clocks, its own timers, and an event loop that can stand still. Everything
 * that reaches the client code comes through `deliver`.
 */
export class SimProcess {
  readonly name: string
  readonly runtime: Runtime
  locks: Locks | null = null
  /** Opens another client of the same store, for a program that closes the one it has. */
  open: (() => Promise<Locks>) | null = null
  /** A signal that callers of the process share. A caller that aborts it makes another. */
  shared = new AbortController()
  alive = true
  /** Counts the stops, so that a check knows whether one fell into its time. */
  stops = 0
  /** When it last went on after a stop, on its own clock. */
  resumedAtMs = Number.NEGATIVE_INFINITY
  readonly #time: VirtualTime
  readonly #rate: number
  readonly #origin: number
  readonly #timers = new Set<object>()
  /** Those of them that keep the process running: timers of the library for callers that wait. */
  readonly #keeping = new Set<object>()
  #stopped = false
  #suspendedSince: number | null = null
  #sleptMs = 0
  #wallStepMs = 0
  #wallSteps = 0
  #backlog: (() => void)[] = []

  constructor(name: string, time: VirtualTime, random: SeededRandom, rate: number) {
    this.name = name
    this.#time = time
    this.#rate = rate
    this.#origin = random.between(0, 1e6)
    this.runtime = {
      identity: { host: name, pid: 1 },
      clock: {
        monotonicMs: () => this.monotonicMs(),
        wallMs: () => this.wallMs(),
        uptimeMs: () => this.#origin + this.#time.nowMs * this.#rate,
      },
      timers: { start: (afterMs, run, keepAlive) => this.#startTimer(afterMs, run, keepAlive) },
      random: { id: () => random.id(), fraction: () => random.fraction() },
      contexts: simContexts,
    }
  }

  /** Stands still while the machine sleeps, and runs at its own rate. */
  monotonicMs(): number {
    const until = this.#suspendedSince ?? this.#time.nowMs
    return this.#origin + (until - this.#sleptMs) * this.#rate
  }

  wallMs(): number {
    return 1e12 + this.#time.nowMs + this.#wallStepMs
  }

  get isStopped(): boolean {
    return this.#stopped
  }

  get isAsleep(): boolean {
    return this.#suspendedSince !== null
  }

  get timersLeft(): number {
    return this.#timers.size
  }

  get keepingAlive(): number {
    return this.#keeping.size
  }

  /** Counts what can make the process doubt its holds. */
  get disturbances(): number {
    return this.stops + this.#wallSteps
  }

  stepWallClock(byMs: number): void {
    this.#wallSteps += 1
    this.#wallStepMs += byMs
  }

  /** Like SIGSTOP: nothing runs, and every clock goes on. */
  stop(): void {
    this.#stopped = true
    this.stops += 1
  }

  /** Like closing the lid: nothing runs, and the monotonic clock stands still. */
  suspend(): void {
    this.stop()
    this.#suspendedSince = this.#time.nowMs
  }

  resume(): void {
    if (!this.alive || !this.#stopped) return
    if (this.#suspendedSince !== null) this.#sleptMs += this.#time.nowMs - this.#suspendedSince
    this.#suspendedSince = null
    this.#stopped = false
    this.resumedAtMs = this.monotonicMs()
    const backlog = this.#backlog
    this.#backlog = []
    // One after the other, as an event loop takes them, so that the first may change what the others find.
    for (const run of backlog) this.#time.schedule(this.#time.nowMs, () => this.deliver(run))
  }

  crash(): void {
    this.alive = false
    this.#backlog = []
    this.#timers.clear()
    this.#keeping.clear()
  }

  deliver(run: () => void): void {
    if (!this.alive) return
    if (this.#stopped) this.#backlog.push(run)
    else run()
  }

  /** A timer of the program itself, which the library knows nothing of. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#startTimer(ms, resolve, false)
    })
  }

  #startTimer(afterMs: number, run: () => void, keepAlive: boolean): Timer {
    const due = this.monotonicMs() + afterMs
    const key = {}
    this.#timers.add(key)
    if (keepAlive) this.#keeping.add(key)
    const fire = (): void => {
      if (!this.alive || !this.#timers.has(key)) return
      // Timers follow the monotonic clock, so a sleep of the machine pushes them out.
      const left = due - this.monotonicMs()
      if (left > 1e-6 && !this.#stopped) {
        event = this.#time.schedule(this.#time.nowMs + Math.min(left, HOP_MS) / this.#rate, fire)
        return
      }
      this.deliver(() => {
        if (left > 1e-6) fire()
        else if (this.#drop(key)) run()
      })
    }
    // In hops, because what is cancelled stays in the queue of virtual time until its time has come.
    let event = this.#time.schedule(this.#time.nowMs + Math.min(afterMs, HOP_MS) / this.#rate, fire)
    return {
      cancel: () => {
        this.#drop(key)
        event.cancel()
      },
    }
  }

  #drop(key: object): boolean {
    this.#keeping.delete(key)
    return this.#timers.delete(key)
  }
}
