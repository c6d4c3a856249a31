/** What one caller does over and over: picks a name, and uses its lock in the way of that name. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { AcquireOptions, Mutex } from 'holdfast'
import type { SeededRandom } from 'holdfast/testing'
import { CalledOff, judge } from './caller.js'
import { describeError } from './diary.js'
import type { NamePlan, Usage } from './names.js'
import { RecordedHold } from './recorded-lock.js'
import { workAlone, workAWhile } from './section.js'
import { Bench, type WorkloadSetup } from './usages/bench.js'
import { Asides, useAbortListener } from './usages/callbacks.js'
import { useElection } from './usages/election.js'
import { useOptions } from './usages/options.js'
import { useReaders, useReadWrite } from './usages/read-write.js'
import { useRun } from './usages/running.js'

/** The longest that a caller rests between two uses. Many at once shall want a lock, but not all of the machine. */
const REST_MS = 30
/** After an error of the store: asking again at once would only fill the history. */
const TROUBLE_REST_MS = 200

/** Several locks at once are held for long and waited for by all, so they are wanted less often than the rest. */
function pickName(names: readonly NamePlan[], random: SeededRandom): NamePlan {
  const picked = random.pick(names)
  return picked.usage === 'all' && random.chance(0.8) ? random.pick(names) : picked
}

export class Workload {
  readonly #setup: WorkloadSetup
  readonly #bench: Bench
  readonly #asides: Asides

  constructor(setup: WorkloadSetup) {
    this.#setup = setup
    this.#bench = new Bench(setup)
    this.#asides = new Asides(this.#bench)
  }

  /** Until it is told to finish, which ends no wait: whoever stands in line is to be served. */
  async run(finish: AbortSignal): Promise<void> {
    const { random, names, locks } = this.#setup
    while (!finish.aborted) {
      const plan = pickName(names, random)
      // A flow is one piece of work, and each use is one.
      const served = await this.#guarded(() => locks.flow(() => this.#use(plan)))
      await sleep(served ? random.between(0, REST_MS) : TROUBLE_REST_MS, undefined, { signal: finish }).catch(
        () => {},
      )
    }
    await this.#asides.settled()
  }

  /** Takes every lock once more, however long it takes: when all is quiet again, nobody may be left waiting. */
  async lastRound(): Promise<void> {
    for (const plan of this.#setup.names) {
      while (!(await this.#guarded(() => this.#takeOnce(plan)))) await sleep(TROUBLE_REST_MS)
    }
  }

  /** Called inside an event of the library: asks for a lock right there, now and then. */
  onEvent(): void {
    const { names, random } = this.#setup
    const [first] = names
    if (first !== undefined && random.chance(0.02)) this.#asides.start(first)
  }

  /** Whatever the store and the library do to a caller, it goes on. False after trouble with the store. */
  async #guarded(use: () => Promise<void>): Promise<boolean> {
    const { caller } = this.#setup
    try {
      await use()
      return true
    } catch (error) {
      const { type, unexpected } = judge(error)
      if (unexpected) caller.diary.complain('unexpected-error', caller.p, '', describeError(error))
      return type === 'fail'
    }
  }

  async #takeOnce(plan: NamePlan): Promise<void> {
    const hold = await this.#bench.lockOf(plan).acquire()
    await hold.release()
  }

  async #use(plan: NamePlan): Promise<void> {
    const bench = this.#bench
    const ways: Record<Usage, () => Promise<void>> = {
      mutex: () => this.#asMutex(plan),
      options: () => useOptions(bench, plan),
      impatient: () => this.#impatiently(plan),
      reentrant: () => this.#reentering(plan),
      'read-write': () => useReadWrite(bench, plan),
      readers: () => useReaders(bench, plan),
      semaphore: () => this.#withPermits(plan),
      election: () => useElection(bench, plan),
      all: () => this.#several(),
    }
    await ways[plan.usage]()
  }

  async #asMutex(plan: NamePlan): Promise<void> {
    const way = this.#setup.random.fraction()
    if (way < 0.3) return await useRun(this.#bench, plan)
    // A lock that is broken on purpose has no loss to hear of.
    if (way < 0.4 && this.#setup.broken !== 'no-lock') {
      return await useAbortListener(this.#bench, plan, this.#asides)
    }
    await this.#alone(plan, {})
  }

  async #alone(plan: NamePlan, options: AcquireOptions): Promise<void> {
    const { scene, random } = this.#setup
    await using hold = await this.#bench.lockOf(plan).acquire(options)
    await workAlone(hold, scene, random)
  }

  async #impatiently(plan: NamePlan): Promise<void> {
    const { scene, random, lasting } = this.#setup
    const way = random.fraction()
    if (way < 0.2) return await this.#alone(plan, { signal: lasting })
    if (way < 0.4) return await this.#alone(plan, { waitMs: random.whole(1, 80) })
    if (way < 0.55) return await this.#alone(plan, { waitMs: 0 })
    if (way < 0.75) {
      const calledOff = new AbortController()
      const timer = setTimeout(() => calledOff.abort(new CalledOff()), random.between(0, 60))
      return await this.#alone(plan, { signal: calledOff.signal }).finally(() => clearTimeout(timer))
    }
    await using hold = await this.#bench.lockOf(plan).tryAcquire()
    if (hold !== null) await workAlone(hold, scene, random)
  }

  async #reentering(plan: NamePlan): Promise<void> {
    const { scene, random } = this.#setup
    const mutex = this.#setup.locks.mutex(this.#bench.fullName(plan.name), { reentrant: true })
    const recorded = this.#bench.recorded(mutex, plan.name)
    await using hold = await recorded.acquire()
    await workAlone(hold, scene, random)
    if (!random.chance(0.7)) return
    await this.#within(mutex, hold, async () => {
      await using again = await recorded.acquire({ waitMs: 0 })
      again.assertHeld()
      await sleep(random.between(0, 5))
      again.assertHeld()
    })
    hold.assertHeld()
  }

  async #within(mutex: Mutex, hold: RecordedHold, fn: () => Promise<void>): Promise<void> {
    // A lock that is broken on purpose knows nothing of re-entrance.
    if (this.#setup.broken !== 'no-lock') await mutex.within(hold.inner, fn)
  }

  async #withPermits({ name, limit, permitsMax }: NamePlan): Promise<void> {
    const { locks, scene, random } = this.#setup
    const permits = random.whole(1, permitsMax)
    const semaphore = locks.semaphore(this.#bench.fullName(name), limit)
    const lock = this.#bench.recorded(semaphore, name, { weight: permits })
    const options = random.chance(0.2) ? { waitMs: random.whole(0, 50) } : {}
    await using hold = await lock.acquire({ ...options, permits })
    await workAWhile(hold, scene, random)
  }

  /** Two or three at once, in one order for everybody. */
  async #several(): Promise<void> {
    const { locks, names, scene, random, lasting } = this.#setup
    const several = names.filter(({ usage }) => usage === 'all').filter(() => random.chance(0.7))
    if (several.length === 0) return
    const all = locks.all(several.map((plan) => this.#bench.lockOf(plan)))
    await using set = await all.acquire(random.chance(0.5) ? { signal: lasting } : {})
    for (const hold of set.holds) if (hold instanceof RecordedHold) await workAlone(hold, scene, random)
    set.assertHeld()
  }
}
