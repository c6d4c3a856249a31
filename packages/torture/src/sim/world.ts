import { createLocks, type Locks } from 'holdfast'
import { SeededRandom, settle, VirtualTime } from 'holdfast/testing'
import { CallerChecks } from './caller-checks.js'
import { CalmChecks } from './calm-checks.js'
import { Checker } from './checker.js'
import { Excuses } from './excuses.js'
import { choosePlan, type FaultPlan, Faults } from './faults.js'
import { Losses } from './losses.js'
import { CALM, Network, type NetworkWatch, type Trace } from './network.js'
import { SimProcess } from './process.js'
import { chooseType, makeStore } from './stores/index.js'
import { RESOURCES, type SimStore, type StoreType } from './stores/store.js'
import { Task } from './tasks/task.js'
import type { Manners } from './tasks/wanted.js'
import { Violation } from './violation.js'
import { WakeUps, wakeUpMs } from './wake-ups.js'
import { chooseWeather } from './weather.js'

export interface WorldOptions {
  /** The type of store. Left out: the seed decides. */
  readonly store?: StoreType | undefined
  /** Hears of everything that happens, with its time. */
  readonly onTrace?: ((line: string) => void) | undefined
}

export interface WorldResult {
  readonly seed: number
  readonly steps: number
  readonly grants: number
  readonly losses: number
  readonly faults: number
  readonly store: StoreType
  readonly faultsByKind: ReadonlyMap<string, number>
  readonly violation: Violation | null
}

/** Settled last, so that nothing takes for ever: how long the calm after the storm may last. */
const CALM_STEPS_MAX = 400_000

/** A release that failed is repeated every two seconds at most; after that, what was given up must be gone. */
const CLEAN_UP_MS = 2_500

/** So many worlds have no trouble at all. In these, nothing excuses a loss or a late grant. */
const CLEAN_WORLDS = 0.06

/** One simulated world: processes, a store, a network and faults, all of it decided by the seed. */
export class World {
  readonly #time = new VirtualTime()
  readonly #random: SeededRandom
  readonly #checker: Checker
  readonly #checks: CallerChecks
  readonly #trace: Trace
  readonly #store: SimStore
  readonly #network: Network
  readonly #losses: Losses
  readonly #excuses: Excuses
  readonly #faults: Faults
  readonly #manners: Manners
  readonly #processes: SimProcess[] = []
  readonly #seed: number
  readonly #tasksPerProcess: number
  readonly #requestMs: number
  #born = 0
  #running = 0
  #stormy = true
  #steps = 0
  #failure: Error | null = null

  constructor(seed: number, { store, onTrace }: WorldOptions = {}) {
    const time = this.#time
    this.#seed = seed
    this.#trace = onTrace === undefined ? () => {} : (text) => onTrace(`${time.nowMs.toFixed(3)} ${text()}`)
    const random = new SeededRandom(seed * 2_654_435_761)
    this.#random = random
    const ttlMs = random.pick([100, 300, 1_000, 3_000])
    this.#requestMs = Math.max(20, Math.round(ttlMs / 4))
    const isClean = random.chance(CLEAN_WORLDS)
    const plan = choosePlan(random, ttlMs, isClean)
    const { isStandstills } = plan
    const chosen = chooseType(random)
    this.#store = makeStore(store ?? chosen, { time, random, ttlMs })
    this.#manners = {
      ttlMs,
      holdMs: random.pick([2, 20, ttlMs / 4]),
      idleMs: random.pick([1, 50, ttlMs]),
      fixedLease: isStandstills ? 0.5 : 0.15,
      longWork: isStandstills ? 0.5 : 0.2,
      onlyReaders: random.chance(0.1),
      // Only a queue shows who waits for what.
      detectsDeadlocks: random.chance(0.1) && this.#store.guarantees.fair,
    }
    this.#excuses = new Excuses(time)
    this.#checks = new CallerChecks(this.#store, this.#excuses)
    this.#checks.fairness.isOneQueue = !this.#manners.detectsDeadlocks
    if (random.chance(0.5)) this.#checks.contexts.listen()
    this.#losses = new Losses(time, this.#excuses, this.#requestMs)
    const wakeUps = new WakeUps(time)
    this.#network = new Network(time, random, this.#store, this.#watch(wakeUps), this.#trace)
    this.#network.weather = isClean ? CALM : chooseWeather(random, ttlMs, isStandstills)
    this.#checker = this.#makeChecker(wakeUps)
    this.#tasksPerProcess = random.whole(1, 3)
    this.#faults = this.#makeFaults(wakeUps, plan)
  }

  #watch(wakeUps: WakeUps): NetworkWatch {
    const losses = this.#losses
    this.#store.onAdmitted = (claimId) => wakeUps.admitted(claimId)
    return {
      renewalSent: (process, requests) => losses.renewalSent(process, requests),
      renewalAnswered: (process, requests, states) => losses.renewalAnswered(process, requests, states),
      lossPushed: (process, claimId) => losses.lossPushed(process, claimId),
      trouble: (untilMs) => wakeUps.trouble(untilMs),
    }
  }

  #makeChecker(wakeUps: WakeUps): Checker {
    const { waiting, fencing, keptBy } = this.#store.guarantees
    const limitMs = wakeUpMs(waiting, Math.max(this.#network.weather.delayMs, CALM.delayMs))
    return new Checker(this.#time, this.#trace, {
      excuses: this.#excuses,
      losses: this.#losses,
      begun: (claimId, agoMs) => wakeUps.begun(claimId, agoMs, limitMs),
      isFenced: fencing !== 'none',
      outlivesClient: keptBy === 'lease',
    })
  }

  #makeFaults(wakeUps: WakeUps, plan: FaultPlan): Faults {
    const scene = {
      time: this.#time,
      random: this.#random,
      trace: this.#trace,
      store: this.#store,
      network: this.#network,
      checker: this.#checker,
      checks: this.#checks,
      losses: this.#losses,
      excuses: this.#excuses,
      wakeUps,
      ttlMs: this.#manners.ttlMs,
      processes: () => this.#processes,
      crash: (process: SimProcess) => this.#crash(process),
    }
    return new Faults(scene, plan)
  }

  /** Runs the storm for about `steps` steps and then the calm. Never throws: what went wrong is in the result. */
  async run(steps: number): Promise<WorldResult> {
    try {
      const count = this.#random.whole(2, 4)
      for (let index = 0; index < count; index++) await this.#spawn()
      this.#faults.start()
      while (this.#steps < steps && (await this.#step())) {
        // Each step checks itself.
      }
      await this.#calmDown()
      return this.#result(null)
    } catch (error) {
      if (error instanceof Violation) return this.#result(error)
      throw error
    } finally {
      this.#checks.stop()
    }
  }

  #result(violation: Violation | null): WorldResult {
    const { grants, losses } = this.#checker
    const { counts: faultsByKind, total: faults } = this.#faults
    const store = this.#store.type
    return { seed: this.#seed, steps: this.#steps, grants, losses, faults, store, faultsByKind, violation }
  }

  async #step(): Promise<boolean> {
    if (!this.#time.step()) return false
    this.#steps += 1
    await settle()
    this.#checker.afterStep()
    this.#checks.afterStep()
    if (this.#failure !== null) throw this.#failure
    return true
  }

  async #spawn(): Promise<void> {
    const random = this.#random
    this.#born += 1
    // Rates differ by less than the margin allows for.
    const process = new SimProcess(`p${this.#born}`, this.#time, random, random.between(0.994, 1.006))
    const { ttlMs, detectsDeadlocks } = this.#manners
    const options = {
      ttlMs,
      requestMs: this.#requestMs,
      outageMs: ttlMs * 2,
      waiterLeaseMs: Math.max(50, Math.round(ttlMs / random.pick([1, 2, 8]))),
      ...(detectsDeadlocks ? ({ deadlocks: 'detect', deadlockCheckMs: 100 } as const) : {}),
    }
    process.open = () => {
      const backend = this.#checks.watch(process, this.#network.backendFor(process), this.#requestMs)
      return createLocks(backend, options, process.runtime)
    }
    process.locks = await process.open()
    this.#processes.push(process)
    for (let index = 0; index < this.#tasksPerProcess; index++)
      this.#startTask(process, `${process.name}.${index}`)
  }

  #startTask(process: SimProcess, name: string): void {
    this.#running += 1
    const stage = {
      checker: this.#checker,
      checks: this.#checks,
      random: this.#random,
      manners: this.#manners,
    }
    new Task(process, stage, name)
      .run(() => this.#stormy && process.alive)
      .then(
        () => {
          this.#running -= 1
        },
        (error: unknown) => {
          this.#failure ??= asError(error)
        },
      )
  }

  #crash(process: SimProcess): void {
    process.crash()
    this.#checker.processDies(process)
    this.#losses.processDies(process)
    this.#checks.processDies(process)
    this.#running -= this.#tasksPerProcess
    this.#processes.splice(this.#processes.indexOf(process), 1)
    // A task of a dead process never comes back to say that it ended.
    this.#spawn().catch((error: unknown) => {
      this.#failure ??= asError(error)
    })
  }

  /** No more faults: everybody must come to an end, and nothing may be left. */
  async #calmDown(): Promise<void> {
    this.#stormy = false
    const calmSince = this.#time.nowMs
    this.#faults.stop()
    const until = this.#calmUntil()
    for (let steps = 0; this.#running > 0; steps++) {
      if (steps > CALM_STEPS_MAX || this.#time.nowMs > until || !(await this.#step())) {
        this.#checker.assertNobodyWaits()
        throw new Violation('stuck', `${this.#running} tasks did not end`)
      }
    }
    this.#checker.assertNobodyWaits()
    await this.#checkOrphans(calmSince)
    this.#checks.assertAllOver(this.#processes)
    await this.#checkCalm()
    await this.#closeAll()
  }

  /** Without faults, the longest wait is for a few leases of crashed processes. */
  #calmUntil(): number {
    return this.#time.nowMs + 60_000 + this.#manners.ttlMs * 60
  }

  /** What a living process gave up must leave the store soon; only the dead are left to their leases. */
  async #checkOrphans(calmSince: number): Promise<void> {
    while (this.#network.onTheWay > 0 && (await this.#step())) {
      // What is still on the way may make an entry, and its answer must then lead to a release.
    }
    // Where the answer to an attempt was lost, its lease ends the entry.
    const leasesEndAt = calmSince + this.#manners.ttlMs + this.#store.postponedMs
    await this.#passTime(Math.max(this.#time.nowMs + CLEAN_UP_MS, leasesEndAt))
    const living = new Set(this.#processes.map(({ name }) => name))
    for (const resource of RESOURCES) {
      const { holders, waiters } = this.#store.inspect(resource)
      for (const { owner, remainingMs, ref } of [...holders, ...waiters]) {
        if (!living.has(owner.host) || this.#excuses.isRevived(ref)) continue
        throw new Violation(
          'orphan',
          `${resource} still has an entry of ${owner.host} with ${remainingMs} ms to go`,
        )
      }
    }
  }

  async #checkCalm(): Promise<void> {
    const [one, other] = this.#processes.map(({ locks }) => locks as Locks)
    if (one === undefined || other === undefined) return
    const calm = {
      store: this.#store,
      network: this.#network,
      nowMs: () => this.#time.nowMs,
      drive: <T>(promise: Promise<T>) => this.#drive(promise),
      passTime: (untilMs: number) => this.#passTime(untilMs),
    }
    await new CalmChecks(calm, one, other).run()
  }

  async #closeAll(): Promise<void> {
    await this.#drive(Promise.all(this.#processes.map((process) => (process.locks as Locks).close())))
    await this.#passTime(this.#time.nowMs + 10_000)
    for (const process of this.#processes) {
      if (process.timersLeft > 0)
        throw new Violation('timer-left', `${process.name} has ${process.timersLeft}`)
    }
  }

  /** Lets time pass until the promise settles. */
  async #drive<T>(promise: Promise<T>): Promise<T> {
    let settled = false
    const note = (): void => {
      settled = true
    }
    promise.then(note, note)
    await settle()
    const until = this.#calmUntil()
    while (!settled && this.#time.nowMs < until && (await this.#step())) {
      // Running out of events or of time before it is settled shows below.
    }
    if (!settled) throw new Violation('stuck', 'a call in the calm did not end')
    return await promise
  }

  async #passTime(untilMs: number): Promise<void> {
    // Time passes only with events, so the mark is one.
    this.#time.schedule(untilMs, () => {})
    while (this.#time.nowMs < untilMs) await this.#step()
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
