import { type Hold, LockLostError } from 'holdfast'
import type { Belief } from '../checker.js'
import { standingOf, tokenOf } from '../standing.js'
import { Violation } from '../violation.js'
import type { Actor, Terms } from './actor.js'
import { chooseWanted, type Wanted } from './wanted.js'

type Downgradable = Hold & { downgrade(): Promise<Hold> }

/** What the body of one `run()` saw. */
interface Seen {
  began: boolean
  lost: boolean
  /** The store had no entry of the hold any more when the body ended. */
  absent: boolean
  belief: Belief | null
}

/** `run()`: it rejects if the lock was lost before the body ended, and the error of the body always wins. */
export async function runOnce(actor: Actor): Promise<void> {
  const { random, manners } = actor.stage
  const wanted = chooseWanted(actor.locks, random, manners)
  const terms = actor.terms(wanted.permits)
  const wait = actor.waitBegins(wanted, terms)
  const own = random.chance(0.3) ? new Error('of the caller') : null
  const seen: Seen = { began: false, lost: false, absent: false, belief: null }
  const body = async (hold: Hold): Promise<string> => {
    seen.began = true
    wait.over(true)
    await bodyOf(actor, wanted, terms, hold, seen)
    if (own !== null) throw own
    return actor.caller.name
  }
  try {
    const value = await wanted.lock.run(body, terms)
    actor.stage.checks.contexts.expect(actor.caller, 'what follows run()')
    resolved(actor, own, seen, value)
  } catch (error) {
    if (error instanceof Violation) throw error
    if (!seen.began) {
      wait.over(false)
      actor.tolerate(error)
    } else rejected(own, error)
  }
}

async function bodyOf(actor: Actor, wanted: Wanted, terms: Terms, hold: Hold, seen: Seen): Promise<void> {
  const { checker, checks, random } = actor.stage
  checks.contexts.expect(actor.caller, 'the body of run()')
  let last = hold
  let belief = actor.believe(wanted, hold, terms)
  await actor.work(belief, hold)
  if ('downgrade' in hold && random.chance(0.3)) {
    const lighter = await downgraded(actor, wanted, belief, hold as Downgradable)
    if (lighter !== null) {
      belief = lighter.belief
      last = lighter.hold
      await actor.work(belief, last)
    }
  }
  checker.end(belief)
  seen.belief = belief
  seen.lost = last.signal.aborted
  seen.absent = !checks.fairness.isPresent(belief.resource, belief.key)
}

function resolved(actor: Actor, own: Error | null, { lost, absent, belief }: Seen, value: string): void {
  if (own !== null) throw new Violation('error-replaced', 'run() resolved although its body threw')
  if (value !== actor.caller.name) throw new Violation('unexpected-error', 'run() gave another value')
  if (lost) throw new Violation('loss-ignored', 'run() resolved although its lock was lost')
  if (!absent || belief === null || belief.disturbances !== actor.process.disturbances) return
  // The store said at the release, within the lease, that the claim was not there.
  const goneAt = actor.stage.checks.fairness.goneAt(belief.key)
  if (goneAt !== null && goneAt < belief.hold.deadline) {
    throw new Violation('loss-ignored', `run() resolved although the store had lost ${belief.resource}`)
  }
}

function rejected(own: Error | null, error: unknown): void {
  const detail = error instanceof Error ? (error.stack ?? error.message) : String(error)
  if (own !== null && error !== own) throw new Violation('error-replaced', detail)
  if (own === null && !(error instanceof LockLostError)) throw new Violation('unexpected-error', detail)
}

/** `await using`: the hold is over at the end of the block. */
export async function useOnce(actor: Actor): Promise<void> {
  const { random, manners, checker } = actor.stage
  const wanted = chooseWanted(actor.locks, random, manners)
  const terms = actor.terms(wanted.permits)
  const held = await actor.take(wanted, terms)
  if (held === null) return
  await (async () => {
    await using hold = held
    const belief = actor.believe(wanted, hold, terms)
    await actor.work(belief, hold)
    checker.end(belief)
  })()
  if (held.isHeld) throw new Violation('overlap', `${wanted.resource} is held after its block`)
}

/** Becomes a reader. The position, and so the fence, stays the same: no writer was in between. */
export async function downgraded(
  actor: Actor,
  wanted: Wanted,
  belief: Belief,
  hold: Downgradable,
): Promise<{ readonly belief: Belief; readonly hold: Hold } | null> {
  const { checker, checks } = actor.stage
  checker.end(belief)
  const { process, resource } = belief
  const before = { token: tokenOf(hold), id: standingOf(hold).claim.id }
  const over = checks.begin(actor.caller, {
    process,
    client: actor.locks,
    resource,
    weight: 1,
    queues: false,
  })
  const reader = await actor.expecting(() => hold.downgrade())
  over(false)
  if (reader === null) return null
  // Without fencing tokens, the claim is all that can be compared.
  if (tokenOf(reader) !== before.token || standingOf(reader).claim.id !== before.id) {
    throw new Violation('overlap', `a downgrade of ${resource} took another position in the queue`)
  }
  return { belief: actor.believeOn({ ...wanted, weight: 1 }, reader, belief), hold: reader }
}
