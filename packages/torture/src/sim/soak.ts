import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createLocks } from 'holdfast'
import { SeededRandom, settle, VirtualTime } from 'holdfast/testing'
import { ContextChecks } from './contexts.js'
import { attachedTo } from './lifetime.js'
import { Network, type NetworkWatch, type Weather } from './network.js'
import { SimProcess } from './process.js'
import { SoakTask } from './soak-task.js'
import { LeasedStore } from './stores/leased.js'
import { NOTHING, type Tally, withWorld } from './tally.js'
import { Violation } from './violation.js'
import type { WorldResult } from './world.js'

const PROCESSES = 3
const TASKS = 3
const TTL_MS = 3_000

/** Longer than any lease, so that whatever a fault left behind is over; and than any hop of a timer of a process. */
const QUIET_MS = 1_200_000

/**
 * A leak makes the heap grow in every window, and whatever else V8 keeps does not. So the run goes on while the heap has
 * grown, for up to this many windows; one without growth ends it.
 */
const WINDOWS_MAX = 3

/** An entry of a map with a small object, kept for each acquisition, takes several times as much. */
const BYTES_PER_ACQUISITION = 24

/** The heap of a run without a leak mostly varies by less: compiled code, and tables that grow in steps. */
const HEAP_SLACK_BYTES = 180_000

/** The size of a run unless `--soak` says otherwise. The first half warms up; the second is enough to see a small leak beside the slack. */
export const SOAK_ACQUISITIONS = 10_000

/** One run without faults and one with faults. */
const SOAK_SEEDS = 2

const STORMY: Weather = {
  delayMs: 20,
  slow: 0.02,
  slowMs: TTL_MS,
  lostRequest: 0.01,
  lostReply: 0.01,
  duplicate: 0.01,
  lostPush: 0.05,
}

const NO_WATCH: NetworkWatch = {
  renewalSent: () => {},
  renewalAnswered: () => {},
  lossPushed: () => {},
  trouble: () => {},
}

/** What is left when no caller does anything. */
interface Count {
  readonly acquisitions: number
  readonly timers: number
  readonly entries: number
  readonly attached: number
  readonly heapBytes: number
}

/**
 * A world that goes on for hours of virtual time. When its callers rest, whatever the library keeps must be the same as
 * half a run before: timers, listeners, entries in the store and memory.
 */
export class Soak {
  readonly #time = new VirtualTime()
  readonly #random: SeededRandom
  readonly #seed: number
  readonly #store: LeasedStore
  readonly #network: Network
  readonly #stormy: boolean
  readonly #processes: SimProcess[] = []
  readonly #shared = new AbortController()
  readonly #contexts: ContextChecks
  #failure: Error | null = null
  #acquisitions = 0
  #target = 0
  #running = 0
  #steps = 0
  #faults = 0

  constructor(seed: number) {
    this.#seed = seed
    this.#random = new SeededRandom(seed * 2_654_435_761)
    this.#stormy = seed % 2 === 0
    const time = this.#time
    const random = this.#random
    this.#store = new LeasedStore({ time, random, ttlMs: TTL_MS }, 'push')
    this.#network = new Network(time, random, this.#store, NO_WATCH, () => {})
    this.#contexts = new ContextChecks((violation) => {
      this.#failure ??= violation
    })
  }

  /** `onCount` hears what was counted at each mark. */
  async run(acquisitions: number, onCount?: (text: string) => void): Promise<WorldResult> {
    this.#contexts.listen()
    try {
      for (let index = 1; index <= PROCESSES; index++) await this.#spawn(index)
      this.#plan()
      const half = Math.ceil(acquisitions / 2)
      let before = await this.#window(half, onCount)
      for (let windows = 1; ; windows++) {
        const after = await this.#window(half, onCount)
        const growth = growthOf(before, after)
        if (growth === null) break
        if (windows === WINDOWS_MAX) throw new Violation('growth', growth)
        before = after
      }
      return this.#result(null)
    } catch (error) {
      if (error instanceof Violation) return this.#result(error)
      throw error
    } finally {
      this.#contexts.stop()
    }
  }

  #result(violation: Violation | null): WorldResult {
    const counted = { steps: this.#steps, grants: this.#acquisitions, losses: 0, faults: this.#faults }
    return { seed: this.#seed, ...counted, store: this.#store.type, faultsByKind: new Map(), violation }
  }

  async #spawn(index: number): Promise<void> {
    const random = this.#random
    const process = new SimProcess(`p${index}`, this.#time, random, random.between(0.994, 1.006))
    // One of the clients looks for deadlocks, which gives every flow a queue of its own.
    const options = { ttlMs: TTL_MS, requestMs: 500, waiterLeaseMs: 1_000, deadlockCheckMs: 200 }
    const deadlocks = index === 1 ? 'detect' : 'off'
    process.locks = await createLocks(
      this.#network.backendFor(process),
      { ...options, deadlocks },
      process.runtime,
    )
    this.#processes.push(process)
  }

  async #window(acquisitions: number, onCount?: (text: string) => void): Promise<Count> {
    await this.#work(this.#acquisitions + acquisitions)
    const count = await this.#count()
    onCount?.(`${Math.round(this.#time.nowMs / 60_000)} min: ${JSON.stringify(count)}`)
    return count
  }

  /** Lets the callers work until there were so many acquisitions in all, and until all of them rest. */
  async #work(until: number): Promise<void> {
    this.#target = until
    if (this.#stormy) this.#network.weather = STORMY
    for (const process of this.#processes) {
      for (let index = 0; index < TASKS; index++) this.#startTask(process)
    }
    while (this.#running > 0) await this.#step()
  }

  #startTask(process: SimProcess): void {
    this.#running += 1
    const stage = {
      random: this.#random,
      contexts: this.#contexts,
      signal: this.#shared.signal,
      onAcquired: () => {
        this.#acquisitions += 1
      },
    }
    const over = (): void => {
      this.#running -= 1
      if (this.#running === 0) this.#network.heal()
    }
    new SoakTask(process, stage)
      .run(() => this.#acquisitions < this.#target)
      .then(over, (error: unknown) => {
        this.#failure ??= error instanceof Error ? error : new Error(String(error))
      })
  }

  /** A process stands still or its machine sleeps, or the store is away. None of it may leave anything behind. */
  #plan(): void {
    if (!this.#stormy) return
    const random = this.#random
    this.#time.schedule(this.#time.nowMs + random.between(0, TTL_MS * 20), () => {
      const process = random.pick(this.#processes)
      const forMs = random.between(0, TTL_MS * 2)
      if (this.#running > 0 && !process.isStopped) {
        this.#faults += 1
        if (random.chance(0.3)) this.#network.restart(forMs)
        else {
          if (random.chance(0.5)) process.stop()
          else process.suspend()
          this.#time.schedule(this.#time.nowMs + forMs, () => process.resume())
        }
      }
      this.#plan()
    })
  }

  async #step(): Promise<void> {
    if (!this.#time.step()) throw new Violation('stuck', `${this.#running} tasks did not end`)
    this.#steps += 1
    await settle()
    if (this.#failure !== null) throw this.#failure
  }

  async #count(): Promise<Count> {
    const untilMs = this.#time.nowMs + QUIET_MS
    this.#time.schedule(untilMs, () => {})
    while (this.#time.nowMs < untilMs) await this.#step()
    this.#contexts.assertAllOver()
    for (const { name, keepingAlive } of this.#processes) {
      if (keepingAlive > 0) throw new Violation('kept-alive', `${name} has ${keepingAlive} timers`)
    }
    return {
      acquisitions: this.#acquisitions,
      timers: this.#processes.reduce((sum, { timersLeft }) => sum + timersLeft, 0),
      entries: this.#store.entries().length,
      attached: attachedTo(this.#shared.signal),
      heapBytes: await usedHeap(),
    }
  }
}

/** Runs the seeds of one thread. Seed 1 has no faults and seed 2 has. */
export async function runSoaks(
  firstSeed: number,
  stride: number,
  acquisitions: number,
  onWorld?: (result: WorldResult) => void,
): Promise<Tally> {
  let tally = NOTHING
  for (let seed = firstSeed; seed <= SOAK_SEEDS; seed += stride) {
    const result = await new Soak(seed).run(acquisitions)
    onWorld?.(result)
    tally = withWorld(tally, result)
    if (tally.failure !== null) return tally
  }
  return tally
}

/** What the heap grew by, where that is more than noise. Everything else is counted exactly. */
function growthOf(before: Count, after: Count): string | null {
  const grown = (['timers', 'entries', 'attached'] as const).filter((what) => after[what] > before[what])
  for (const what of grown) throw new Violation('growth', `${before[what]} ${what}, then ${after[what]}`)
  const acquisitions = after.acquisitions - before.acquisitions
  const bytes = after.heapBytes - before.heapBytes
  if (bytes <= HEAP_SLACK_BYTES + acquisitions * BYTES_PER_ACQUISITION) return null
  const each = (bytes / acquisitions).toFixed(0)
  return `the heap grew by ${each} bytes for each of ${acquisitions} acquisitions`
}

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** What is still reachable. Weak references and finalizers need a turn of the event loop between two collections. */
async function usedHeap(): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 4; round++) {
    collect()
    await settle()
    least = Math.min(least, process.memoryUsage().heapUsed)
  }
  return least
}
