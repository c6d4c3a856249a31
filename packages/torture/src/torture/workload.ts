/** What one caller does over and over: picks a name, and uses its lock in the way of that name. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { AcquireOptions, Hold, Lockable, Locks, Mutex } from 'holdfast'
import type { SeededRandom } from 'holdfast/testing'
import { brokenLock } from './broken-lock.js'
import { CalledOff, type Caller, judge } from './caller.js'
import { describeError } from './diary.js'
import type { NamePlan, Usage } from './names.js'
import type { Breakage } from './protocol.js'
import { RecordedHold, RecordedLock } from './recorded-lock.js'
import { type Scene, workAlone, workAWhile } from './section.js'

export interface WorkloadSetup {
  readonly locks: Locks
  readonly caller: Caller
  readonly random: SeededRandom
  readonly scene: Scene
  readonly names: readonly NamePlan[]
  readonly prefix: string
  readonly fenced: boolean
  readonly broken: Breakage | null
}

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

  constructor(setup: WorkloadSetup) {
    this.#setup = setup
  }

  /** Until it is told to finish, which ends no wait: whoever stands in line is to be served. */
  async run(finish: AbortSignal): Promise<void> {
    const { random, names } = this.#setup
    while (!finish.aborted) {
      const served = await this.#guarded(() => this.#use(pickName(names, random)))
      await sleep(served ? random.between(0, REST_MS) : TROUBLE_REST_MS, undefined, { signal: finish }).catch(
        () => {},
      )
    }
  }

  /** Takes every lock once more, however long it takes: when all is quiet again, nobody may be left waiting. */
  async lastRound(): Promise<void> {
    for (const plan of this.#setup.names) {
      while (!(await this.#guarded(() => this.#takeOnce(plan)))) await sleep(TROUBLE_REST_MS)
    }
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
    const hold = await this.#lockOf(plan).acquire()
    await hold.release()
  }

  async #use(plan: NamePlan): Promise<void> {
    const ways: Record<Usage, () => Promise<void>> = {
      mutex: () => this.#alone(plan, {}),
      impatient: () => this.#impatiently(plan),
      reentrant: () => this.#reentering(plan),
      'read-write': () => this.#readingOrWriting(plan),
      semaphore: () => this.#withPermits(plan),
      all: () => this.#several(),
    }
    await ways[plan.usage]()
  }

  async #alone(plan: NamePlan, options: AcquireOptions): Promise<void> {
    const { scene, random } = this.#setup
    await using hold = await this.#lockOf(plan).acquire(options)
    await workAlone(hold, scene, random)
  }

  async #impatiently(plan: NamePlan): Promise<void> {
    const { scene, random } = this.#setup
    const way = random.fraction()
    if (way < 0.2) return await this.#alone(plan, {})
    if (way < 0.4) return await this.#alone(plan, { waitMs: random.whole(1, 80) })
    if (way < 0.55) return await this.#alone(plan, { waitMs: 0 })
    if (way < 0.75) {
      const calledOff = new AbortController()
      const timer = setTimeout(() => calledOff.abort(new CalledOff()), random.between(0, 60))
      return await this.#alone(plan, { signal: calledOff.signal }).finally(() => clearTimeout(timer))
    }
    await using hold = await this.#lockOf(plan).tryAcquire()
    if (hold !== null) await workAlone(hold, scene, random)
  }

  async #reentering(plan: NamePlan): Promise<void> {
    const { scene, random } = this.#setup
    const mutex = this.#setup.locks.mutex(this.#fullName(plan.name), { reentrant: true })
    const recorded = this.#recorded(mutex, plan.name)
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
    if (this.#setup.broken === null) await mutex.within(hold.inner, fn)
  }

  async #readingOrWriting(plan: NamePlan): Promise<void> {
    const { locks, scene, random } = this.#setup
    const lock = locks.readWrite(this.#fullName(plan.name))
    if (random.chance(0.3)) {
      await using hold = await this.#recorded(lock.write(), plan.name).acquire()
      return await workAlone(hold, scene, random)
    }
    await using hold = await this.#recorded(lock.read(), plan.name, { mode: 'shared' }).acquire()
    await workAWhile(hold, scene, random)
  }

  async #withPermits({ name, limit, permitsMax }: NamePlan): Promise<void> {
    const { locks, scene, random } = this.#setup
    const permits = random.whole(1, permitsMax)
    const lock = this.#recorded(locks.semaphore(this.#fullName(name), limit), name, { weight: permits })
    const options = random.chance(0.2) ? { waitMs: random.whole(0, 50) } : {}
    await using hold = await lock.acquire({ ...options, permits })
    await workAWhile(hold, scene, random)
  }

  /** Two or three at once, in one order for everybody. */
  async #several(): Promise<void> {
    const { locks, names, scene, random } = this.#setup
    const several = names.filter(({ usage }) => usage === 'all').filter(() => random.chance(0.7))
    if (several.length === 0) return
    const all = locks.all(several.map((plan) => this.#lockOf(plan)))
    await using set = await all.acquire()
    for (const hold of set.holds) if (hold instanceof RecordedHold) await workAlone(hold, scene, random)
    set.assertHeld()
  }

  /** Plainly, with the weight of one. */
  #lockOf(plan: NamePlan): RecordedLock {
    const { locks } = this.#setup
    const full = this.#fullName(plan.name)
    if (plan.usage === 'semaphore') return this.#recorded(locks.semaphore(full, plan.limit), plan.name)
    if (plan.usage === 'read-write') return this.#recorded(locks.readWrite(full).write(), plan.name)
    return this.#recorded(locks.mutex(full), plan.name)
  }

  #recorded<O extends AcquireOptions>(
    lock: Lockable<Hold, O>,
    short: string,
    wanted: { readonly mode?: 'shared'; readonly weight?: number } = {},
  ): RecordedLock<O> {
    const { caller, fenced, broken, scene } = this.#setup
    const inner = broken === null ? lock : brokenLock<O>(lock.name, scene.ttlMs)
    return new RecordedLock(inner, caller, short, fenced, wanted)
  }

  #fullName(name: string): string {
    return this.#setup.prefix + name
  }
}
