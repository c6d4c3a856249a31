import { refOf } from 'holdfast/backend'
import type { VirtualTime } from 'holdfast/testing'
import type { EntryKey, Excuses } from './excuses.js'
import type { Losses } from './losses.js'
import type { Trace } from './network.js'
import type { SimProcess } from './process.js'
import { type SeenStanding, standingOf } from './standing.js'
import { Violation } from './violation.js'

/** As much of a hold as the checker looks at. None of it changes anything. */
interface Seen {
  readonly deadline: number
  readonly fence: bigint
  readonly signal: AbortSignal
}

/** The checks that have a file of their own. */
export interface Watches {
  readonly excuses: Excuses
  readonly losses: Losses
  /** A caller has a hold that stands on this claim. The client got the grant `agoMs` before. */
  readonly begun: (claimId: string, agoMs: number) => void
  /** Whether the store mints fencing tokens. */
  readonly isFenced: boolean
  /** Whether the store keeps an entry after the client that made it was closed. */
  readonly outlivesClient: boolean
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
  readonly hold: Pick<Seen, 'deadline' | 'signal'>
  /** Of a store without fencing tokens: the number of the grant, in the order in which callers got theirs. */
  readonly fence: bigint
  readonly standing: SeenStanding
  /** The entry of the store that it stands on. */
  readonly key: EntryKey
  readonly stops: number
  /** When it began, on the clock of its process, and what had happened to that process until then. */
  readonly sinceMs: number
  readonly disturbances: number
  /** How many clients of its process had been closed when it began. */
  readonly closings: number
  /** Asleep: it does not count until its process has asserted it anew. */
  void: boolean
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

const FRESH = { aborted: false, void: false, overdueSince: null as number | null }

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
  /** The grants of a store without fencing tokens, by claim. */
  readonly #numbers = new Map<string, bigint>()
  /** Holds that were released and stay taken for their minimum. */
  readonly #staying = new Set<Belief>()
  readonly #closings = new Map<SimProcess, number>()
  readonly #watches: Watches

  constructor(time: VirtualTime, trace: Trace, watches: Watches) {
    this.#time = time
    this.#trace = trace
    this.#watches = watches
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
    const { claim, since } = standingOf(hold)
    const { id } = claim
    if (!this.#watches.isFenced) this.#numbers.set(id, BigInt(this.grants))
    const fence = this.#fenceOf(hold)
    this.#trace(() => `${process.name}: holds ${resource} with ${fence}, weight ${weight}`)
    if (process.monotonicMs() >= hold.deadline) {
      throw new Violation('granted-late', `${resource} was given to ${process.name} after its deadline`)
    }
    this.#watches.begun(id, process.monotonicMs() - since)
    if (!this.#isExcused(keyOf(hold)) && !this.#isRevived(keyOf(hold)))
      this.#checkFence(process, { resource, weight, limit }, fence)
    return this.goOn(process, { resource, weight, limit }, hold)
  }

  /** A hold goes on as another one with the same number, as after a downgrade. */
  goOn(process: SimProcess, { resource, weight, limit }: Held, hold: Seen): Belief {
    const fence = this.#fenceOf(hold)
    const { stops, disturbances } = process
    const standing = standingOf(hold)
    const key = keyOf(hold)
    const sinceMs = process.monotonicMs()
    const held = { process, resource, weight, limit, hold, fence, standing, key }
    const closings = this.#closings.get(process) ?? 0
    const belief = { ...held, stops, sinceMs, disturbances, closings, ...FRESH }
    this.#watches.losses.begin(belief, hold.deadline)
    this.#add(belief)
    return belief
  }

  /** A hold that was released stays taken until then, because it has a minimum. A client that was closed may not keep it. */
  stays(belief: Belief, untilMs: number): Belief {
    const hold = { deadline: untilMs, signal: belief.hold.signal }
    const ghost = { ...belief, hold, aborted: true }
    if (belief.closings !== (this.#closings.get(belief.process) ?? 0)) return ghost
    this.#staying.add(ghost)
    this.#add(ghost)
    return ghost
  }

  #add(belief: Belief): void {
    const { resource } = belief
    const beliefs = this.#beliefs.get(resource)
    if (beliefs === undefined) this.#beliefs.set(resource, new Set([belief]))
    else beliefs.add(belief)
    this.#checkOverlap(resource, 'overlap')
  }

  end(belief: Belief): void {
    this.#trace(() => `${belief.process.name}: is done with ${belief.resource}, ${belief.fence}`)
    this.#beliefs.get(belief.resource)?.delete(belief)
    this.#staying.delete(belief)
    this.#watches.losses.end(belief)
  }

  aborted(belief: Belief): void {
    const isOver = this.#beliefs.get(belief.resource)?.has(belief) !== true
    const reason: unknown = Reflect.get(Object(belief.hold.signal.reason), 'reason')
    if (!isOver) this.losses += 1
    if (!isOver) this.#watches.losses.lost(belief, String(reason))
    this.#trace(() => `${belief.process.name}: was told that ${belief.resource}, ${belief.fence}, is lost`)
    belief.aborted = true
    this.end(belief)
  }

  /** The process asserted the hold, and the assertion passed: then it must be true. */
  asserted(belief: Belief): void {
    if (this.#isExcused(belief.key)) return
    belief.void = false
    this.#beliefs.get(belief.resource)?.add(belief)
    this.#checkOverlap(belief.resource, 'asserted-overlap')
  }

  /** A guarded write right after an assertion. The guard refuses a lower fence than it has seen of an excluding hold. */
  write(belief: Belief): void {
    if (this.#isExcused(belief.key) || this.#isRevived(belief.key)) return
    const exclusive = belief.weight === belief.limit
    const highest = this.#gates.get(belief.resource) ?? 0n
    if (belief.fence < highest) {
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
    this.#watches.losses.afterStep()
  }

  processStops(process: SimProcess, asleep: boolean): void {
    for (const belief of this.#all()) if (belief.process === process && asleep) belief.void = true
  }

  /** A client of the process is closed. A minimum stands after that only where a lease keeps it. */
  clientCloses(process: SimProcess): void {
    if (this.#watches.outlivesClient) return
    this.#closings.set(process, (this.#closings.get(process) ?? 0) + 1)
    for (const ghost of this.#staying) if (ghost.process === process) this.end(ghost)
  }

  processDies(process: SimProcess): void {
    for (const belief of this.#all()) if (belief.process === process) this.end(belief)
    for (const wait of this.#waits) if (wait.process === process) this.#waits.delete(wait)
  }

  /** The store has forgotten its fencing tokens, and may mint any of them again. */
  fencesForgotten(): void {
    this.#fences.clear()
    this.#used.clear()
    this.#gates.clear()
    this.#watches.losses.fencesForgotten()
  }

  #isExcused(key: EntryKey): boolean {
    return this.#watches.excuses.isCovered(key)
  }

  /** A fault brought the entry back. Others may have got higher numbers while it was gone. */
  #isRevived({ ref }: EntryKey): boolean {
    return this.#watches.excuses.isRevived(ref)
  }

  /** The number that orders the grants of a resource. A hold that goes on keeps it. */
  #fenceOf(hold: Seen): bigint {
    if (this.#watches.isFenced) return hold.fence
    return this.#numbers.get(standingOf(hold).claim.id) ?? 0n
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
      if (this.#isExcused(belief.key)) continue
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

function keyOf(hold: Seen): EntryKey {
  const { claim, fence } = standingOf(hold)
  return { ref: refOf(claim.id), place: fence }
}
