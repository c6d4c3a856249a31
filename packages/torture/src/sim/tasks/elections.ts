import { attachedTo } from '../lifetime.js'
import { handOversOf } from '../standing.js'
import { Violation } from '../violation.js'
import { type Actor, CHANGED_MIND } from './actor.js'

/** Campaigns, leads for a while and resigns. The checker knows that there is one leader, and that fences rise. */
export async function campaign(actor: Actor): Promise<void> {
  const election = actor.locks.election('lead')
  const wanted = { lock: election, resource: 'lead', weight: 1, limit: 1, permits: null }
  const terms = { ...actor.terms(null), note: actor.process.name }
  const wait = actor.waitBegins(wanted, terms)
  const leadership = await actor.expecting(() => election.campaign(terms))
  wait.over(leadership !== null)
  if (leadership === null) return
  const belief = actor.believe(wanted, leadership, terms)
  // Every leadership is a claim of its own at the store.
  if ((handOversOf(leadership) ?? 0) > 0) {
    throw new Violation('leader-order', `${actor.caller.name} was handed a leadership of its process`)
  }
  await actor.work(belief, leadership)
  actor.stage.checker.end(belief)
  await leadership.resign()
}

/** Watches who leads: each leader that is seen has a higher fence than the one before, unless the store has lost data. */
export async function observe(actor: Actor): Promise<void> {
  const { random, manners, checks } = actor.stage
  const { process, caller } = actor
  const ending = new AbortController()
  void process.sleep(random.between(0, manners.ttlMs * 2)).then(() => ending.abort(CHANGED_MIND))
  const { signal } = ending
  checks.lifetime.callBegins(process)
  let last: bigint | null = null
  let { storeFaults } = checks
  try {
    for await (const leader of actor.locks.election('lead').observe({ everyMs: 50, signal })) {
      checks.contexts.expect(caller, 'the loop of observe()')
      const fence = leader?.fence ?? null
      if (storeFaults !== checks.storeFaults) last = null
      storeFaults = checks.storeFaults
      if (fence !== null && last !== null && fence <= last) {
        throw new Violation('leader-order', `${caller.name} saw a leader with ${fence} after ${last}`)
      }
      last = fence ?? last
    }
  } catch (error) {
    actor.tolerate(error)
  } finally {
    checks.lifetime.callEnds(process)
  }
  if (attachedTo(signal) > 0) throw new Violation('growth', 'observe() left a listener on its signal')
}
