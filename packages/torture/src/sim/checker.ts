import type { VirtualTime } from 'holdfast/testing'
import type { Trace } from './network.js'
import type { SimProcess } from './process.js'
import { Violation } from './violation.js'

/** As much of a hold as the checker looks at. None of it changes anything. */
interface Seen {
  readonly deadline: number
  readonly fence: bigint
}

/** What is held, as far as others are concerned. */
interface Held {
  readonly resource: string
  readonly weight: number
  readonly limit: number
}

/** One hold as its process believes in it. */
export interface Belief extends Held {
  readonly process: SimProcess
  readonly hold: Seen
  readonly fence: bigint
  readonly stops: number
  /** When it began, on the clock of its process, and what had happened to that process until then. */
  readonly sinceMs: number
  readonly disturbances: number
  /** Asleep or broken by an operator: it does not count until its process has asserted it anew. */
  void: boolean
  /** An operator took it away: it never counts again. */
  broken: boolean
  aborted: boolean
  overdueSince: number | null
}

interface Wait {
  readonly process: SimProcess
  readonly resource: string
  readonly since: number
  readonly stops: number
  readonly waitMs: number | null
}

/** How many fences a caller sees between two places in the store's line. */
const FENCE_STEP = 1_024n

const FRESH = { aborted: false, overdueSince: null as number | null }

/** How late an abort or a timeout may come while its process runs: the grain of the wheel and of the scheduler. */
const LATE_MS = 30

/**
 * Watches a world from outside and trusts nobody's word but what each process itself would act on. Throws at the first
 * broken promise.
 */
export class Checker {
  grants = 0
  losses = 0
  readonly #time: VirtualTime
  readonly #trace: Trace
  readonly #beliefs = new Map<string, Set<Belief>>()
  readonly #fences = new Map<string, { fence: bigint; weight: number }[]>()
  readonly #used = new Map<string, Set<bigint>>()
  readonly #gates = new Map<string, bigint>()
  readonly #waits = new Set<Wait>()
  readonly #broken = new Set<string>()

  constructor(time: VirtualTime, trace: Trace) {
    this.#time = time
    this.#trace = trace
  }

  waitBegins(process: SimProcess, resource: string, waitMs: number | null): Wait {
    const wait = { process, resource, since: this.#time.nowMs, stops: process.stops, waitMs }
    this.#waits.add(wait)
    return wait
  }

  waitEnds(wait: Wait): void {
    this.#waits.delete(wait)
    const { process, waitMs, since } = wait
    const tookMs = this.#time.nowMs - since
    if (waitMs === null || process.stops !== wait.stops) return
    if (tookMs > waitMs * 1.02 + LATE_MS + 1_000) {
      throw new Violation(
        'timeout-late',
        `${process.name} waited ${tookMs} ms for ${wait.resource} with ${waitMs} ms`,
      )
    }
  }

  /** A caller has been given a hold. */
  begin(process: SimProcess, { resource, weight, limit }: Held, hold: Seen): Belief {
    this.grants += 1
    this.#trace(() => `${process.name}: holds ${resource} with ${hold.fence}, weight ${weight}`)
    if (process.monotonicMs() >= hold.deadline) {
      throw new Violation('granted-late', `${resource} was given to ${process.name} after its deadline`)
    }
    this.#checkFence(process, { resource, weight, limit }, hold.fence)
    return this.goOn(process, { resource, weight, limit }, hold)
  }

  /** A hold goes on as another one with the same number, as after a downgrade. */
  goOn(process: SimProcess, { resource, weight, limit }: Held, hold: Seen): Belief {
    const { fence } = hold
    const { stops, disturbances } = process
    const sinceMs = process.monotonicMs()
    const broken = this.#isBroken(resource, fence)
    const held = { process, resource, weight, limit, hold, fence, stops, sinceMs, disturbances }
    const belief = { ...held, ...FRESH, broken, void: broken }
    const beliefs = this.#beliefs.get(resource)
    if (beliefs === undefined) this.#beliefs.set(resource, new Set([belief]))
    else beliefs.add(belief)
    this.#checkOverlap(resource, 'overlap')
    return belief
  }

  /** A hold that was released stays taken until then, because it has a minimum. */
  stays(belief: Belief, untilMs: number): Belief {
    const { process, fence } = belief
    const ghost = this.goOn(process, belief, { fence, deadline: untilMs })
    ghost.aborted = true
    return ghost
  }

  end(belief: Belief): void {
    this.#trace(() => `${belief.process.name}: is done with ${belief.resource}, ${belief.fence}`)
    this.#beliefs.get(belief.resource)?.delete(belief)
  }

  aborted(belief: Belief): void {
    if (!belief.broken) this.losses += 1
    this.#trace(() => `${belief.process.name}: was told that ${belief.resource}, ${belief.fence}, is lost`)
    belief.aborted = true
    this.end(belief)
  }

  /** The process asserted the hold, and the assertion passed: then it must be true. */
  asserted(belief: Belief): void {
    if (belief.broken) return
    belief.void = false
    this.#beliefs.get(belief.resource)?.add(belief)
    this.#checkOverlap(belief.resource, 'asserted-overlap')
  }

  /** A guarded write right after an assertion. The guard refuses a lower fence than it has seen of an excluding hold. */
  write(belief: Belief): void {
    const exclusive = belief.weight === belief.limit
    const highest = this.#gates.get(belief.resource) ?? 0n
    if (belief.fence < highest && !belief.broken) {
      const detail = `${belief.process.name} asserted ${belief.resource} with fence ${belief.fence}, but ${highest} was seen`
      throw new Violation('refused-while-held', detail)
    }
    if (exclusive && belief.fence > highest) this.#gates.set(belief.resource, belief.fence)
  }

  /** After every step: nobody overlaps, and whoever should have stopped has been told. */
  afterStep(): void {
    for (const [resource, beliefs] of this.#beliefs) {
      if (beliefs.size === 0) continue
      if (beliefs.size > 1) this.#checkOverlap(resource, 'overlap')
      for (const belief of beliefs) this.#checkAbort(belief)
    }
  }

  processStops(process: SimProcess, asleep: boolean): void {
    for (const belief of this.#all()) if (belief.process === process && asleep) belief.void = true
  }

  processDies(process: SimProcess): void {
    for (const belief of this.#all()) if (belief.process === process) this.end(belief)
    for (const wait of this.#waits) if (wait.process === process) this.#waits.delete(wait)
  }

  /**
   * An operator took these places of the resource away. Who held them may go on believing for a while, by design, and
   * who has yet to hear of its grant may even begin to.
   */
  broken(resource: string, places: readonly bigint[]): void {
    for (const place of places) this.#broken.add(`${resource} ${place}`)
    for (const belief of this.#beliefs.get(resource) ?? []) {
      if (!this.#isBroken(resource, belief.fence)) continue
      belief.void = true
      belief.broken = true
    }
  }

  #isBroken(resource: string, fence: bigint): boolean {
    return this.#broken.has(`${resource} ${fence / FENCE_STEP}`)
  }

  assertNobodyWaits(): void {
    for (const { process, resource, since } of this.#waits) {
      throw new Violation(
        'stuck',
        `${process.name} has waited for ${resource} for ${this.#time.nowMs - since} ms`,
      )
    }
  }

  #checkFence(process: SimProcess, { resource, weight, limit }: Held, fence: bigint): void {
    const used = this.#used.get(resource) ?? new Set()
    if (used.has(fence)) throw new Violation('fence-reused', `${fence} of ${resource}, by ${process.name}`)
    this.#used.set(resource, used.add(fence))
    if (this.#isBroken(resource, fence)) return
    // Of two holds that exclude each other, the later one has the higher number. One maximum per weight is enough.
    const before = this.#fences.get(resource) ?? []
    for (const other of before) {
      if (other.weight + weight > limit && fence <= other.fence) {
        throw new Violation('fence-order', `${process.name} got ${fence} of ${resource} after ${other.fence}`)
      }
    }
    const same = before.find((other) => other.weight === weight)
    if (same === undefined) this.#fences.set(resource, [...before, { fence, weight }])
    else if (fence > same.fence) same.fence = fence
  }

  #checkOverlap(resource: string, kind: 'overlap' | 'asserted-overlap'): void {
    let sum = 0
    let limit = 0
    const live: Belief[] = []
    for (const belief of this.#beliefs.get(resource) ?? []) {
      if (belief.void || belief.process.monotonicMs() >= belief.hold.deadline) continue
      live.push(belief)
      sum += belief.weight
      limit = belief.limit
    }
    if (sum <= limit) return
    const who = live.map(({ process, fence }) => `${process.name} (fence ${fence})`).join(' and ')
    throw new Violation(kind, `${who} hold ${resource} at ${this.#time.nowMs.toFixed(3)}`)
  }

  #checkAbort(belief: Belief): void {
    const { process, hold } = belief
    if (process.isStopped || belief.stops !== process.stops || process.monotonicMs() < hold.deadline) {
      belief.overdueSince = null
      return
    }
    belief.overdueSince ??= this.#time.nowMs
    if (this.#time.nowMs - belief.overdueSince > LATE_MS && !belief.aborted) {
      throw new Violation('abort-late', `${process.name} was not told that ${belief.resource} is over`)
    }
  }

  *#all(): Generator<Belief> {
    for (const beliefs of this.#beliefs.values()) yield* beliefs
  }
}
