import { createLocks, type Locks } from 'holdfast'
import { SeededRandom, settle, VirtualTime } from 'holdfast/testing'
import { CallerChecks } from './caller-checks.js'
import { checkDowngrade, checkLossAtRelease } from './calm-checks.js'
import { Checker } from './checker.js'
import { CALM, SimStore, type Trace, type Weather } from './network.js'
import { SimProcess } from './process.js'
import { Task } from './tasks/task.js'
import { type Manners, RESOURCES } from './tasks/wanted.js'
import { Violation } from './violation.js'

export interface WorldResult {
  readonly seed: number
  readonly steps: number
  readonly grants: number
  readonly losses: number
  readonly faults: number
  readonly violation: Violation | null
}

/** Settled last, so that nothing takes for ever: how long the calm after the storm may last. */
const CALM_STEPS_MAX = 400_000

/** A release that failed is repeated every two seconds at most; after that, what was given up must be gone. */
const CLEAN_UP_MS = 2_500

/** Longer than a release takes in the calm, and shorter than a waiter's lease in most worlds. */
const GIVE_UP_MS = 40

type FaultKind = 'stop' | 'sleep' | 'clock' | 'restart' | 'crash' | 'break'

const FAULT_KINDS: readonly FaultKind[] = ['stop', 'stop', 'sleep', 'clock', 'restart', 'crash', 'break']

/** The faults that tell stale knowledge from fresh; they are rare enough together to deserve worlds of their own. */
const STANDSTILLS: readonly FaultKind[] = ['stop', 'sleep']

/** One simulated world: processes, a store, a network and faults, all of it decided by the seed. */
export class World {
  readonly #time = new VirtualTime()
  readonly #random: SeededRandom
  readonly #checker: Checker
  readonly #checks = new CallerChecks()
  readonly #trace: Trace
  readonly #store: SimStore
  readonly #manners: Manners
  readonly #processes: SimProcess[] = []
  readonly #seed: number
  readonly #tasksPerProcess: number
  readonly #faultEveryMs: number
  readonly #faultKinds: readonly FaultKind[]
  #born = 0
  #running = 0
  #stormy = true
  #faults = 0
  #steps = 0
  #failure: Error | null = null

  /** `onTrace` hears of everything that happens, with its time. */
  constructor(seed: number, onTrace?: (line: string) => void) {
    this.#seed = seed
    this.#trace =
      onTrace === undefined ? () => {} : (text) => onTrace(`${this.#time.nowMs.toFixed(3)} ${text()}`)
    this.#checker = new Checker(this.#time, this.#trace)
    const random = new SeededRandom(seed * 2_654_435_761)
    this.#random = random
    const ttlMs = random.pick([100, 300, 1_000, 3_000])
    const standstills = random.chance(0.4)
    this.#faultKinds = standstills ? STANDSTILLS : FAULT_KINDS
    this.#manners = {
      ttlMs,
      holdMs: random.pick([2, 20, ttlMs / 4]),
      idleMs: random.pick([1, 50, ttlMs]),
      fixedLease: standstills ? 0.5 : 0.15,
      longWork: standstills ? 0.5 : 0.2,
      onlyReaders: random.chance(0.1),
      detectsDeadlocks: random.chance(0.1),
    }
    this.#store = new SimStore(this.#time, random, random.chance(0.6), this.#trace)
    this.#checks.fairness.watch(this.#store.store)
    this.#checks.fairness.isOneQueue = !this.#manners.detectsDeadlocks
    if (random.chance(0.5)) this.#checks.contexts.listen()
    const weather = chooseWeather(random, ttlMs)
    this.#store.weather =
      standstills && random.chance(0.7) ? { ...weather, slow: 0.2, slowMs: ttlMs * 2 } : weather
    this.#tasksPerProcess = random.whole(1, 3)
    this.#faultEveryMs = standstills
      ? random.pick([ttlMs / 2, ttlMs * 2])
      : random.pick([ttlMs / 2, ttlMs * 2, ttlMs * 10, Number.POSITIVE_INFINITY])
  }

  /** Runs the storm for about `steps` steps and then the calm. Never throws: what went wrong is in the result. */
  async run(steps: number): Promise<WorldResult> {
    try {
      const count = this.#random.whole(2, 4)
      for (let index = 0; index < count; index++) await this.#spawn()
      this.#plan()
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
    return { seed: this.#seed, steps: this.#steps, grants, losses, faults: this.#faults, violation }
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
      requestMs: Math.max(20, Math.round(ttlMs / 4)),
      outageMs: ttlMs * 2,
      waiterLeaseMs: Math.max(50, Math.round(ttlMs / random.pick([1, 2, 8]))),
      ...(detectsDeadlocks ? ({ deadlocks: 'detect', deadlockCheckMs: 100 } as const) : {}),
    }
    process.open = () =>
      createLocks(
        this.#checks.watch(process, this.#store.backendFor(process), options.requestMs),
        options,
        process.runtime,
      )
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

  #plan(): void {
    if (!this.#stormy || this.#faultEveryMs === Number.POSITIVE_INFINITY) return
    const inMs = this.#random.between(0, this.#faultEveryMs * 2)
    this.#time.schedule(this.#time.nowMs + inMs, () => {
      if (!this.#stormy) return
      this.#faults += 1
      const what = this.#strike()
      this.#trace(() => `fault: ${what}`)
      this.#plan()
    })
  }

  #strike(): string {
    const random = this.#random
    const process = random.pick(this.#processes.filter(({ alive }) => alive))
    const { ttlMs } = this.#manners
    const long = random.chance(this.#faultKinds === STANDSTILLS ? 0.7 : 0.3)
    const forMs = long
      ? random.between(ttlMs, ttlMs * (this.#faultKinds === STANDSTILLS ? 1.5 : 4))
      : random.between(0, ttlMs)
    switch (random.pick(this.#faultKinds)) {
      case 'stop':
        this.#halt(process, forMs, false)
        return `${process.name} stands still for ${forMs} ms`
      case 'sleep':
        this.#halt(process, forMs, true)
        return `the machine of ${process.name} sleeps for ${forMs} ms`
      case 'clock':
        process.stepWallClock(random.between(-3_600_000, 3_600_000))
        return `the wall clock of ${process.name} is set`
      case 'restart':
        this.#store.restart(forMs)
        return `the store is away for ${forMs} ms`
      case 'crash':
        this.#crash(process)
        return `${process.name} crashes`
      case 'break': {
        const resource = random.pick(RESOURCES)
        this.#break(resource)
        return `an operator breaks ${resource}`
      }
    }
  }

  #halt(process: SimProcess, forMs: number, asleep: boolean): void {
    if (process.isStopped) return
    this.#checker.processStops(process, asleep)
    if (asleep) process.suspend()
    else process.stop()
    this.#time.schedule(this.#time.nowMs + forMs, () => process.resume())
  }

  #crash(process: SimProcess): void {
    process.crash()
    this.#checker.processDies(process)
    this.#checks.processDies(process)
    this.#running -= this.#tasksPerProcess
    this.#processes.splice(this.#processes.indexOf(process), 1)
    // A task of a dead process never comes back to say that it ended.
    this.#spawn().catch((error: unknown) => {
      this.#failure ??= asError(error)
    })
  }

  #break(resource: string): void {
    const { holders } = this.#store.store.inspect(resource)
    this.#checker.broken(
      resource,
      holders.map(({ fence }) => fence as bigint),
    )
    for (const { ref } of holders) this.#store.store.evict(resource, ref)
  }

  /** No more faults: everybody must come to an end, and nothing may be left. */
  async #calmDown(): Promise<void> {
    this.#stormy = false
    const calmSince = this.#time.nowMs
    this.#store.heal()
    for (const process of this.#processes) process.resume()
    const { ttlMs } = this.#manners
    // Without faults, the longest thing that anybody waits for is a few leases of the dead and the forgotten.
    const until = this.#time.nowMs + 60_000 + ttlMs * 60
    for (let steps = 0; this.#running > 0; steps++) {
      if (steps > CALM_STEPS_MAX || this.#time.nowMs > until || !(await this.#step())) {
        this.#checker.assertNobodyWaits()
        throw new Violation('stuck', `${this.#running} tasks did not end`)
      }
    }
    this.#checker.assertNobodyWaits()
    await this.#checkOrphans(calmSince)
    this.#checks.assertAllOver(this.#processes)
    await this.#checkGivingUp()
    await this.#closeAll()
  }

  /** What a living process gave up must leave the store soon; only the dead are left to their leases. */
  async #checkOrphans(calmSince: number): Promise<void> {
    while (this.#store.onTheWay > 0 && (await this.#step())) {
      // What is still on the way may make an entry, and its answer must then lead to a release.
    }
    await this.#passTime(Math.max(this.#time.nowMs + CLEAN_UP_MS, calmSince + this.#manners.ttlMs))
    const living = new Set(this.#processes.map(({ name }) => name))
    for (const resource of RESOURCES) {
      const { holders, waiters } = this.#store.store.inspect(resource)
      for (const { owner, remainingMs } of [...holders, ...waiters]) {
        if (!living.has(owner.host)) continue
        throw new Violation(
          'orphan',
          `${resource} still has an entry of ${owner.host} with ${remainingMs} ms to go`,
        )
      }
    }
  }

  /** In the calm, whoever stops waiting is out of the line at once, and not only when its lease ends. */
  async #checkGivingUp(): Promise<void> {
    const [one, other] = this.#processes.map(({ locks }) => locks as Locks)
    if (one === undefined || other === undefined) return
    const hold = await this.#drive(one.mutex('z').acquire())
    await this.#drive(other.mutex('z').tryAcquire({ waitMs: 10 }))
    await this.#passTime(this.#time.nowMs + GIVE_UP_MS)
    if (this.#store.store.inspect('z').waiters.length > 0) {
      throw new Violation('orphan', 'a caller that stopped waiting is still in the line')
    }
    await this.#drive(hold.release())
    await this.#drive(checkLossAtRelease(one, this.#store.store))
    await this.#drive(checkDowngrade(one, other))
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
    while (!settled && (await this.#step())) {
      // Running out of events before it is settled shows below.
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

/** Some worlds have one trouble and some have all, because troubles can hide each other. */
function chooseWeather(random: SeededRandom, ttlMs: number): Weather {
  if (random.chance(0.1)) return CALM
  const rate = (): number => (random.chance(0.5) ? 0 : random.pick([0.01, 0.05, 0.2]))
  return {
    delayMs: random.pick([0.5, 5, ttlMs / 20]),
    slow: rate(),
    slowMs: random.pick([ttlMs / 2, ttlMs * 3]),
    lostRequest: rate(),
    lostReply: rate(),
    duplicate: rate(),
    lostPush: rate(),
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
