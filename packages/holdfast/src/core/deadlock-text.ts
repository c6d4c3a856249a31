import type { ClaimView } from './backend.js'
import { quote } from './errors.js'
import type { Deadlock, DeadlockStep } from './wait-graph.js'

/** So long a circle has a reason that its first steps show as well. */
const STEPS_MAX = 16

/**
 * A deadlock in words, as one sentence without a stop: `process 12 on host waits for "b", held by process 13 on host,
 * which waits for "a", held by process 12 on host`. Whatever comes from the store is escaped.
 */
export function describeDeadlock({ cycle }: Pick<Deadlock, 'cycle'>): string {
  const shown = cycle.slice(0, STEPS_MAX)
  const words = shown.map((step, index) => {
    const next = shown[index + 1]
    return `waits for ${quote(step.waitsFor)}${describeWhom(step, cycle)}${next === undefined ? '' : link(step, next)}`
  })
  const left = cycle.length - shown.length
  const first = cycle[0]
  const rest = left === 0 ? '' : `, and so on over ${left} more`
  return `${first === undefined ? '' : `${describeProcess(first.waiter)} `}${words.join(' ')}${rest}`
}

/** Behind a waiter that may not be overtaken, or because of a holder. */
function describeWhom(step: DeadlockStep, cycle: Deadlock['cycle']): string {
  const waits = cycle.some(({ waiter }) => waiter.ref === step.heldBy.ref)
  return `${waits ? ' behind ' : ', held by '}${describeProcess(step.heldBy)}`
}

function link(step: DeadlockStep, next: DeadlockStep): string {
  const { heldBy } = step
  const isSame = heldBy.owner.host === next.waiter.owner.host && heldBy.owner.pid === next.waiter.owner.pid
  return isSame ? ', which' : `, inside which ${describeProcess(next.waiter)}`
}

function describeProcess({ owner }: ClaimView): string {
  const host = quote(owner.host).slice(1, -1)
  return `process ${owner.pid} on ${host}`
}
