import type { Clock } from './runtime.js'

/**
 * Wall clock or uptime moving this much against the monotonic clock means that the machine slept, or that a clock was
 * set. It is less than what margin and guard leave of the shortest lease, so a nap below it does no harm.
 */
const SLEEP_SLACK_MS = 12

/** Uptime comes in steps of 10 ms, so it needs more room. */
const UPTIME_GRAIN_MS = 20

/**
 * After this many steps of the wall clock in a row that the uptime knows nothing of, the wall clock is ignored. A test that
 * freezes `Date` makes every look a step, and no answer of the store could ever be used.
 */
const WALL_STEPS_MAX = 3

/** A wall clock that has kept up with the monotonic clock for this long is believed again. */
const STEADY_MS = 100

/** What the clocks say since the last look. */
export interface Step {
  /** By how much a clock moved against the monotonic clock. */
  readonly byMs: number
  /** For how long the machine has slept, at most. */
  readonly sleptMs: number
}

/**
 * Compares the clocks, to notice that the machine slept while the store went on. The wall clock is quick to read but may
 * be set, or stand still in a test. The uptime is slow to read, and counts sleep only where the system does.
 */
export class SleepWatch {
  readonly #clock: Clock
  #wallLead = 0
  #uptimeLead = 0
  /** Whether the uptime was read since the last restart; a sleep before that is in it, too. */
  #uptimeIsFresh = false
  #trustsWall = true
  #wallSteps = 0
  /** When the wall clock was last seen to step, or to keep up, and how far it was ahead. */
  #steady = { at: Number.NEGATIVE_INFINITY, lead: 0 }

  constructor(clock: Clock) {
    this.#clock = clock
    this.#read(true)
  }

  /**
   * Whatever the clocks did until now is of no concern. Reading the uptime takes long, so where the wall clock can be relied
   * on, that is left to the first thorough look.
   */
  restart(): void {
    this.#uptimeIsFresh = false
    this.#read(!this.#trustsWall)
  }

  /** null: no clock has moved against the monotonic clock since the last look. Only a thorough look reads the uptime. */
  look(thorough: boolean): Step | null {
    const wallLead = this.#wallLead
    const uptimeLead = this.#uptimeLead
    const wasFresh = this.#uptimeIsFresh
    const trustsWall = this.#trustsWall
    const reads = thorough || !trustsWall
    this.#read(reads)
    // A wall clock set back could hide a sleep, so a step in either direction is a reason to ask.
    const wallStep = Math.abs(this.#wallLead - wallLead)
    const uptimeGain = wasFresh ? this.#uptimeLead - uptimeLead : 0
    const byMs = Math.max(trustsWall ? wallStep : 0, uptimeGain - UPTIME_GRAIN_MS)
    // How long it slept is the most that any clock says. Set back, the wall clock says nothing, so the uptime is read.
    if (byMs > SLEEP_SLACK_MS && !reads) this.#read(true)
    const sleptMs = this.#uptimeLead - uptimeLead
    this.#judgeWall(wallStep > SLEEP_SLACK_MS, sleptMs - UPTIME_GRAIN_MS > SLEEP_SLACK_MS)
    if (byMs <= SLEEP_SLACK_MS) return null
    return { byMs, sleptMs: Math.max(0, trustsWall ? this.#wallLead - wallLead : 0, sleptMs) }
  }

  /** Whether the wall clock may be relied on from now on. */
  #judgeWall(stepped: boolean, slept: boolean): void {
    const at = this.#clock.monotonicMs()
    if (!stepped && at - this.#steady.at < STEADY_MS) return
    const keptUp = !stepped && Math.abs(this.#wallLead - this.#steady.lead) <= SLEEP_SLACK_MS
    this.#steady = { at, lead: this.#wallLead }
    if (keptUp || slept) this.#wallSteps = 0
    else if (stepped) this.#wallSteps += 1
    if (this.#wallSteps >= WALL_STEPS_MAX) this.#trustsWall = false
    else if (keptUp) this.#trustsWall = true
  }

  #read(thorough: boolean): void {
    const clock = this.#clock
    this.#wallLead = this.#lead(() => clock.wallMs(), this.#wallLead)
    if (!thorough) return
    this.#uptimeLead = this.#lead(() => clock.uptimeMs(), this.#uptimeLead)
    this.#uptimeIsFresh = true
  }

  /** How far another clock is ahead. A reading that was interrupted half-way would look like a step, so it is repeated. */
  #lead(read: () => number, last: number): number {
    const clock = this.#clock
    for (let tries = 0; tries < 5; tries++) {
      const before = clock.monotonicMs()
      const other = read()
      if (clock.monotonicMs() - before < 2) return other - before
    }
    return last
  }
}
