import type { Backend, ClaimView, ResourceView } from './backend.js'
import { attempted, withDeadline } from './deadline.js'
import { describeDeadlock } from './deadlock-text.js'
import { DeadlockError, quote } from './errors.js'
import { readFlowMark } from './flow-text.js'
import { refOf } from './names.js'
import type { Runtime, Timer } from './runtime.js'
import { findKnots, type Knot } from './wait-graph.js'

/** A claim that waits. */
interface Waitable {
  readonly claim: { readonly id: string; readonly resource: string }
}

/** Gives up its place in the line; whoever waits for it gets the error. */
type GiveUp = (error: DeadlockError) => void

interface Entry {
  readonly giveUp: GiveUp
  dueAt: number
  /** How long until it is looked for again; longer each time, because a deadlock is complete with its youngest wait. */
  stepMs: number
  /** What it was seen in, and how often since without a change. */
  seen: { readonly evidence: string; times: number } | null
}

export interface WatchSettings {
  readonly deadlockCheckMs: number
  readonly requestMs: number
}

const STEP_MS_MAX = 60_000
/** Between two looks at the same deadlock. */
const AGAIN_MS = 200
/** A look costs the store something, so that this many times as long is waited as the last one took. */
const REST_FACTOR = 5
/** Ages are read one after the other, so they are known no better than this. */
const AGE_GRAIN_MS = 100
/** If nobody has given up by now, those in it do not agree on who is the youngest. */
const UNDECIDED_TIMES = 6

/**
 * Looks at the store for the claims of one client that have waited for a while, and gives up the youngest wait of a
 * deadlock. What a store lists is no picture of one moment, so what looks like a deadlock must be seen again: claims that
 * hold and wait in both looks have done so all the time between them, and so all at once.
 */
export class DeadlockWatch {
  readonly #backend: Backend
  readonly #runtime: Runtime
  readonly #settings: WatchSettings
  readonly #entries = new Map<Waitable, Entry>()
  #timer: Timer | null = null
  #timerAt = Number.POSITIVE_INFINITY
  #looking = false
  #notBefore = 0
  #stopped = false

  constructor(backend: Backend, runtime: Runtime, settings: WatchSettings) {
    this.#backend = backend
    this.#runtime = runtime
    this.#settings = settings
  }

  /** The claim has begun to wait. */
  add(waitable: Waitable, giveUp: GiveUp): void {
    const stepMs = this.#settings.deadlockCheckMs
    this.#entries.set(waitable, { giveUp, dueAt: this.#now() + this.#jittered(stepMs), stepMs, seen: null })
    this.#arm()
  }

  delete(waitable: Waitable): void {
    this.#entries.delete(waitable)
    if (this.#entries.size === 0) this.#disarm()
  }

  stop(): void {
    this.#stopped = true
    this.#entries.clear()
    this.#disarm()
  }

  #disarm(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#timerAt = Number.POSITIVE_INFINITY
  }

  #arm(): void {
    if (this.#looking || this.#stopped || this.#entries.size === 0) return
    let dueAt = Number.POSITIVE_INFINITY
    for (const entry of this.#entries.values()) dueAt = Math.min(dueAt, entry.dueAt)
    dueAt = Math.max(dueAt, this.#notBefore)
    if (dueAt >= this.#timerAt) return
    this.#timer?.cancel()
    this.#timerAt = dueAt
    const afterMs = Math.max(1, Math.ceil(dueAt - this.#now()))
    this.#timer = this.#runtime.timers.start(afterMs, () => void this.#look(), false)
  }

  async #look(): Promise<void> {
    this.#disarm()
    this.#looking = true
    const since = this.#now()
    try {
      const views = await this.#list()
      const tookMs = this.#now() - since
      this.#notBefore = this.#now() + tookMs * REST_FACTOR
      this.#judge(findKnots(views), Math.max(AGE_GRAIN_MS, tookMs * 2))
    } catch {
      // The waits themselves go on, and say what is wrong with the store if it stays so.
      this.#judge([], AGE_GRAIN_MS)
    } finally {
      this.#looking = false
      this.#arm()
    }
  }

  async #list(): Promise<ResourceView[]> {
    const context = { resource: null, backend: this.#backend.name }
    const listed = this.#backend.list('')[Symbol.asyncIterator]()
    const views: ResourceView[] = []
    const next = (): Promise<IteratorResult<ResourceView>> =>
      withDeadline(
        this.#runtime.timers,
        this.#settings.requestMs,
        false,
        attempted(() => listed.next()),
        context,
      )
    try {
      for (let each = await next(); each.done !== true; each = await next()) {
        if (each.value.waiters.length > 0) views.push(each.value)
      }
      return views
    } finally {
      void attempted(async () => await listed.return?.()).catch(() => {})
    }
  }

  #judge(knots: readonly Knot[], grainMs: number): void {
    const byRef = new Map(
      knots.flatMap((knot) => knot.cycle.map(({ waiter }) => [waiter.ref, knot] as const)),
    )
    for (const [waitable, entry] of this.#entries) {
      const ref = refOf(waitable.claim.id)
      const knot = byRef.get(ref)
      if (knot === undefined) this.#saidNothing(entry)
      else if (this.#isOver(entry, knot, ref, grainMs)) {
        this.#entries.delete(waitable)
        entry.giveUp(this.#errorFor(waitable, knot))
      }
    }
  }

  #saidNothing(entry: Entry): void {
    entry.seen = null
    // Whose time is near has been looked at with the others.
    if (entry.dueAt - this.#now() > entry.stepMs / 2) return
    entry.stepMs = Math.min(entry.stepMs * 2, STEP_MS_MAX)
    entry.dueAt = this.#now() + this.#jittered(entry.stepMs)
  }

  /** Whether this is the wait to end, and has been seen often enough. */
  #isOver(entry: Entry, knot: Knot, ref: string, grainMs: number): boolean {
    const evidence = knot.evidence.join()
    const times = entry.seen?.evidence === evidence ? entry.seen.times + 1 : 1
    entry.seen = { evidence, times }
    entry.dueAt = this.#now() + this.#jittered(AGAIN_MS)
    const victim = victimOf(knot, times > UNDECIDED_TIMES ? Number.POSITIVE_INFINITY : grainMs)
    // Where the ages say little, another process may see them the other way round: it is given the time to act.
    return victim.ref === ref && times >= (victim.isClear ? 2 : 4)
  }

  #errorFor({ claim: { resource } }: Waitable, knot: Knot): DeadlockError {
    const message =
      `Waiting for ${quote(resource)} would never end: ${describeDeadlock(knot)}. ` +
      'This wait was the youngest, and was given up; release what you hold, and begin again.'
    return new DeadlockError(message, { resource, backend: this.#backend.name }, knot.cycle)
  }

  #jittered(ms: number): number {
    return ms * (0.75 + this.#runtime.random.fraction() / 2)
  }

  #now(): number {
    return this.#runtime.clock.monotonicMs()
  }
}

/** The youngest wait whose process acts upon deadlocks; of several that are about as old, the one with the lowest reference. */
function victimOf(knot: Knot, grainMs: number): { readonly ref: string | null; readonly isClear: boolean } {
  const waiters = knot.cycle
    .map(({ waiter }) => waiter)
    .filter(({ owner }) => readFlowMark(owner.client).detects)
  const youngest = Math.min(...waiters.map(({ ageMs }) => ageMs))
  const candidates = waiters.filter(({ ageMs }) => ageMs - youngest <= grainMs)
  const lowest = candidates.reduce<ClaimView | null>(
    (best, each) => (best === null || each.ref < best.ref ? each : best),
    null,
  )
  return { ref: lowest?.ref ?? null, isClear: candidates.length === 1 }
}
