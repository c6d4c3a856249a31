import type { SeededRandom, VirtualTime } from 'holdfast/testing'
import type { CallerChecks } from './caller-checks.js'
import type { Checker } from './checker.js'
import type { Excuses } from './excuses.js'
import type { Losses } from './losses.js'
import type { Network, Trace } from './network.js'
import type { SimProcess } from './process.js'
import { RESOURCES, type SimStore, type StoreFault } from './stores/store.js'
import type { WakeUps } from './wake-ups.js'

export type FaultKind = 'stop' | 'sleep' | 'clock' | 'restart' | 'crash' | 'break' | 'partition' | StoreFault

const FAULT_KINDS: readonly FaultKind[] = [
  'stop',
  'stop',
  'sleep',
  'clock',
  'restart',
  'crash',
  'break',
  'partition',
]

/** The faults that tell stale knowledge from fresh; they are rare enough together to deserve worlds of their own. */
const STANDSTILLS: readonly FaultKind[] = ['stop', 'sleep']

/** Faults that last, so that another one can fall into their time. */
const LASTING: readonly FaultKind[] = ['stop', 'sleep', 'restart', 'partition']

/** What the faults of a world act on. */
export interface FaultScene {
  readonly time: VirtualTime
  readonly random: SeededRandom
  readonly trace: Trace
  readonly store: SimStore
  readonly network: Network
  readonly checker: Checker
  readonly checks: CallerChecks
  readonly losses: Losses
  readonly excuses: Excuses
  readonly wakeUps: WakeUps
  readonly ttlMs: number
  readonly processes: () => readonly SimProcess[]
  readonly crash: (process: SimProcess) => void
}

/** The plan of faults of one world. */
export interface FaultPlan {
  readonly isStandstills: boolean
  /** Two faults at a time: the second one falls into the time of the first. */
  readonly inPairs: boolean
  readonly everyMs: number
}

export function choosePlan(random: SeededRandom, ttlMs: number, isClean: boolean): FaultPlan {
  const isStandstills = random.chance(0.4)
  const everyMs = isStandstills
    ? random.pick([ttlMs / 2, ttlMs * 2])
    : random.pick([ttlMs / 2, ttlMs * 2, ttlMs * 10, Number.POSITIVE_INFINITY])
  const inPairs = random.chance(0.3)
  return { isStandstills, inPairs, everyMs: isClean ? Number.POSITIVE_INFINITY : everyMs }
}

/** Injects the faults of one world, and tells the checks what each of them can cause. */
export class Faults {
  /** How often each kind was injected; pairs count as `two at once` beside their kinds. */
  readonly counts = new Map<string, number>()
  total = 0
  readonly #scene: FaultScene
  readonly #plan: FaultPlan
  readonly #kinds: readonly FaultKind[]
  #isOver = false

  constructor(scene: FaultScene, plan: FaultPlan) {
    this.#scene = scene
    this.#plan = plan
    const own = scene.store.faults
    // A store's own fault is what its type is for, so it strikes as often as all others together.
    const common = plan.isStandstills ? STANDSTILLS : FAULT_KINDS
    this.#kinds = own.length === 0 ? common : [...common, ...common.flatMap(() => own)]
  }

  start(): void {
    const { everyMs } = this.#plan
    if (this.#isOver || everyMs === Number.POSITIVE_INFINITY) return
    const { time, random } = this.#scene
    time.schedule(time.nowMs + random.between(0, everyMs * 2), () => {
      if (this.#isOver) return
      if (this.#plan.inPairs) this.#strikeTwice()
      else this.#strike(random.pick(this.#kinds), this.#durationMs())
      this.start()
    })
  }

  stop(): void {
    this.#isOver = true
    this.#scene.network.heal()
    for (const process of this.#scene.processes()) this.#resume(process)
    this.#scene.wakeUps.trouble()
  }

  #strikeTwice(): void {
    const { time, random } = this.#scene
    const lasting = this.#kinds.filter((kind) => LASTING.includes(kind))
    const forMs = this.#durationMs()
    const first = random.pick(lasting)
    const second = random.pick(this.#kinds.filter((kind) => kind !== first))
    this.#count('two at once')
    this.#strike(first, forMs)
    time.schedule(time.nowMs + random.between(0, forMs), () => {
      if (!this.#isOver) this.#strike(second, this.#durationMs())
    })
  }

  #durationMs(): number {
    const { random, ttlMs } = this.#scene
    const { isStandstills } = this.#plan
    const isLong = random.chance(isStandstills ? 0.7 : 0.3)
    return isLong ? random.between(ttlMs, ttlMs * (isStandstills ? 1.5 : 4)) : random.between(0, ttlMs)
  }

  #count(kind: string): void {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1)
  }

  #strike(kind: FaultKind, forMs: number): void {
    this.#count(kind)
    this.total += 1
    this.#scene.wakeUps.trouble()
    const what = this.#inject(kind, forMs)
    this.#scene.trace(() => `fault: ${what}`)
  }

  #inject(kind: FaultKind, forMs: number): string {
    const { random, network, losses, crash } = this.#scene
    const process = random.pick(this.#scene.processes().filter(({ alive }) => alive))
    switch (kind) {
      case 'stop':
        this.#halt(process, forMs, false)
        return `${process.name} stands still for ${forMs} ms`
      case 'sleep':
        this.#halt(process, forMs, true)
        return `the machine of ${process.name} sleeps for ${forMs} ms`
      case 'clock':
        process.stepWallClock(random.between(-3_600_000, 3_600_000))
        losses.clocksMove(process)
        return `the wall clock of ${process.name} is set`
      case 'restart':
        network.restart(forMs)
        return `the store is away for ${forMs} ms`
      case 'partition':
        network.part(process, forMs)
        return `${process.name} cannot reach the store for ${forMs} ms`
      case 'crash':
        crash(process)
        return `${process.name} crashes`
      case 'break':
        return this.#break(random.pick(RESOURCES))
      case 'data-loss':
      case 'clock-step':
      case 'session-end':
        return this.#strikeStore(kind, process)
    }
  }

  #halt(process: SimProcess, forMs: number, asleep: boolean): void {
    if (process.isStopped) return
    const { time, checker, losses } = this.#scene
    checker.processStops(process, asleep)
    losses.processHalts(process, asleep)
    if (asleep) process.suspend()
    else process.stop()
    time.schedule(time.nowMs + forMs, () => this.#resume(process))
  }

  #resume(process: SimProcess): void {
    if (!process.alive || !process.isStopped) return
    this.#scene.wakeUps.trouble()
    this.#scene.losses.processResumes(process)
    process.resume()
  }

  #break(resource: string): string {
    const { store } = this.#scene
    this.#withExcuses(() => {
      for (const { ref } of store.inspect(resource).holders) store.evict(resource, ref)
    })
    return `an operator breaks ${resource}`
  }

  #strikeStore(fault: StoreFault, victim: SimProcess): string {
    const { store, checker, checks } = this.#scene
    const { what, forgetsFences } = this.#withExcuses(() => store.strike(fault, victim))
    if (forgetsFences) checker.fencesForgotten()
    checks.storeStruck()
    return what
  }

  /** The checks excuse what the fault has taken from the store, and nothing else. */
  #withExcuses<T>(fault: () => T): T {
    const { store, excuses } = this.#scene
    const before = store.entries()
    const result = fault()
    excuses.add(before, store.entries(), store.guarantees.ttlMaxMs)
    return result
  }
}
