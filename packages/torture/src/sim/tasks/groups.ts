import type { HoldSet, Locks } from 'holdfast'
import { tokenOf } from '../standing.js'
import { Violation } from '../violation.js'
import type { Actor } from './actor.js'
import { chooseWanted, mutexOf } from './wanted.js'

/** Several locks at once, with `acquire()` or `run()`. */
export async function several(actor: Actor): Promise<void> {
  const { random, checks } = actor.stage
  const { process, caller } = actor
  const all = actor.locks.all(['a', 'b'])
  const { signal } = actor.terms(null)
  const terms = { waitMs: random.whole(0, 2_000), ...(signal === undefined ? {} : { signal }) }
  const asks = ['a', 'b'].map((resource) =>
    checks.begin(caller, { process, client: actor.locks, resource, weight: 1, queues: false }),
  )
  const over = (): void => {
    for (const end of asks.splice(0)) end(false)
  }
  if (random.chance(0.3)) {
    const body = async (set: HoldSet): Promise<void> => {
      over()
      await workUnder(actor, set)
    }
    await actor.expecting(() => all.run(body, terms))
    over()
    return
  }
  const set = await actor.expecting(() => all.acquire(terms))
  over()
  if (set === null) return
  await workUnder(actor, set)
  await set.release()
}

async function workUnder(actor: Actor, set: HoldSet): Promise<void> {
  actor.stage.checks.contexts.expect(actor.caller, 'work under all()')
  const beliefs = set.holds.map((hold) => {
    return { belief: actor.believe(mutexOf(actor.locks, hold.resource), hold, {}, false), hold }
  })
  for (const { belief, hold } of beliefs) await actor.work(belief, hold)
  for (const { belief } of beliefs) actor.stage.checker.end(belief)
}

/** Many calls of one caller at once, with one signal. */
export async function crowd(actor: Actor): Promise<void> {
  const { random, manners, checks } = actor.stage
  const { signal } = actor.process.shared
  checks.lifetime.shares(actor.process, signal)
  const one = async (): Promise<void> => {
    const wanted = chooseWanted(actor.locks, random, manners)
    const terms = { ...actor.terms(wanted.permits), signal }
    const hold = await actor.take(wanted, terms)
    if (hold === null) return
    const belief = actor.believe(wanted, hold, terms)
    await actor.work(belief, hold)
    await actor.giveBack(belief, hold, terms.minHoldMs)
  }
  await Promise.all(Array.from({ length: random.whole(2, 4) }, one))
}

/** A lock that the same flow enters again, with `within()` or with `run()`. */
export async function reenter(actor: Actor): Promise<void> {
  const { random } = actor.stage
  const mutex = actor.locks.mutex('a', { reentrant: true })
  const wanted = { ...mutexOf(actor.locks, 'a'), lock: mutex }
  const outer = await actor.take(wanted)
  if (outer === null) return
  const belief = actor.believe(wanted, outer)
  // A hold that was lost meanwhile is not entered again: then this is a call like any other.
  const wait = actor.waitBegins(wanted, { waitMs: 0 })
  const inner = await actor.expecting(() => mutex.within(outer, () => mutex.tryAcquire()))
  wait.over(false)
  if (inner !== null) {
    if (inner.isHeld && outer.isHeld && tokenOf(inner) !== tokenOf(outer)) {
      throw new Violation('unexpected-error', 're-entering gave another fence')
    }
    await inner.release()
    if (random.chance(0.3) && outer.isHeld && inner.isHeld) {
      throw new Violation('unexpected-error', 'a re-entered hold is held after its release')
    }
  }
  await actor.work(belief, outer)
  await actor.giveBack(belief, outer)
}

/** One flow that takes two locks one after the other, in either order; where it could deadlock, it gets an error or times out. */
export async function flow(actor: Actor): Promise<void> {
  const { random, manners } = actor.stage
  const names = random.chance(0.5) ? ['a', 'b'] : ['b', 'a']
  await actor.locks.flow(async () => {
    actor.stage.checks.contexts.expect(actor.caller, 'the body of flow()')
    const taken: (() => Promise<void>)[] = []
    for (const name of names) {
      const wanted = mutexOf(actor.locks, name)
      const hold = await actor.take(wanted, { ttlMs: manners.ttlMs, waitMs: random.whole(0, 2_000) })
      if (hold === null) break
      const belief = actor.believe(wanted, hold)
      taken.unshift(() => actor.giveBack(belief, hold))
    }
    await actor.process.sleep(random.between(0, manners.holdMs))
    for (const giveBack of taken) await giveBack()
  })
}

/** Closes the client of the process while its callers wait and hold, and goes on with another one. */
export async function replaceClient(actor: Actor): Promise<void> {
  const { process } = actor
  const { random, checks, checker } = actor.stage
  const before = actor.locks
  process.locks = (await process.open?.()) as Locks
  checker.clientCloses(process)
  await before.close({ drainMs: random.pick([0, 50]) })
  // The rejections have had an event of their own to reach their callers.
  await process.sleep(1)
  if (checks.fairness.isWaitedFor(before)) {
    throw new Violation('stuck', `a caller of ${process.name} waits for a client that is closed`)
  }
}
