import { type Micros, type Promises, processOf } from '../../history/format.js'
import type { Call, Loss, ResourceBook } from '../calls.js'
import type { Surroundings } from '../surroundings.js'
import type { Violation } from '../verdict.js'

/** Losses that the library decides by itself. No fault causes them. */
const OF_THE_LIBRARY: ReadonlySet<string> = new Set(['max-hold', 'closed'])
/** Faults after which a store still has every lock that it had before. */
const NETWORK: ReadonlySet<string> = new Set([
  'cut',
  'drop-requests',
  'drop-replies',
  'delay',
  'late',
  'duplicate',
])
/** The clock of a lease may be read a little before its end. */
const TIMER_MICROS = 5_000

/** Whether a lock was lost although no fault, no standstill and no option of the request explains it. */
export function unexplainedLosses(book: ResourceBook, promises: Promises, around: Surroundings): Violation[] {
  const bound = promises.lossWithinMicros
  if (bound === undefined || book.losses.length === 0) return []
  const requests = new Map<number, Call>()
  for (const call of book.calls)
    if (call.f === 'acquire' && !requests.has(call.hold)) requests.set(call.hold, call)
  return book.losses
    .filter((loss) => !isExplained(loss, requests.get(loss.hold), { book, promises, around, bound }))
    .map((loss) => violationOf(book.name, loss))
}

interface Context {
  readonly book: ResourceBook
  readonly promises: Promises
  readonly around: Surroundings
  readonly bound: Micros
}

function isExplained(loss: Loss, request: Call | undefined, context: Context): boolean {
  if (wasAskedFor(loss, request)) return true
  if (OF_THE_LIBRARY.has(loss.reason)) return false
  return wasEvicted(loss, context) || hadFault(loss, context) || stoodStill(loss, context)
}

/** The caller itself set an end: a longest time to hold, or a lease that is not renewed. */
function wasAskedFor({ reason, at, until }: Loss, request: Call | undefined): boolean {
  if (request === undefined) return false
  const { maxHoldMs, fixedLease } = request.input ?? {}
  if (reason === 'max-hold')
    return maxHoldMs !== undefined && at >= request.asked + maxHoldMs * 1_000 - TIMER_MICROS
  return reason === 'expired' && fixedLease === true && until !== null && at >= until - TIMER_MICROS
}

function wasEvicted({ at }: Loss, { book, bound }: Context): boolean {
  return book.calls.some(
    ({ f, outcome, asked, ended }) =>
      f === 'evict' && outcome !== 'fail' && asked <= at && ended + bound >= at,
  )
}

function hadFault({ p, at, reason }: Loss, { promises: { keptBy }, around, bound }: Context): boolean {
  if (keptBy === 'lease' && reason !== 'expired' && reason !== 'evicted') return false
  // A store that keeps leases forgets none of them because a connection is bad.
  const mustForget = keptBy === 'lease' && reason === 'evicted'
  return around
    .namedFaultsAround(processOf(p))
    .some(({ name, from, to }) => from <= at && to + bound >= at && !(mustForget && NETWORK.has(name)))
}

/**
 * A process that stands still for long enough cannot renew. What the store still had to keep, it forgets only if the process
 * was away for most of a lease.
 */
function stoodStill({ p, at, reason }: Loss, { promises, around, bound }: Context): boolean {
  const stood = around.standstillsOf(processOf(p))
  const isForgotten = promises.keptBy === 'lease' && reason === 'evicted'
  const enough = isForgotten ? bound / 2 : (promises.waiterLeaseMicros ?? 0)
  return stood.touches(at - bound, at) && stood.within(at - bound, at) >= enough
}

function violationOf(resource: string, { p, at, from, reason }: Loss): Violation {
  return {
    kind: 'unexplained-loss',
    resource,
    at,
    message: `${p} lost the lock (${reason}), and no fault, standstill or option explains it.`,
    involved: [{ p, from, to: at }],
  }
}
