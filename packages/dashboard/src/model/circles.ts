import type { Deadlock, DeadlockStep } from './contract.js'

/** `possible`: the claims do not say which piece of work they belong to, so independent callers may only look like one. */
export type Certainty = 'certain' | 'possible'

export function certaintyOf({ certain }: Deadlock): Certainty {
  return certain ? 'certain' : 'possible'
}

export function countOf(deadlocks: readonly Deadlock[], certainty: Certainty): number {
  return deadlocks.filter((deadlock) => certaintyOf(deadlock) === certainty).length
}

/** Whichever says more of something that is in several circles. */
export function surer(a: Certainty | undefined, b: Certainty): Certainty {
  return a === 'certain' ? a : b
}

/** The locks that are waited for in a circle. */
export function circledLocks(deadlocks: readonly Deadlock[]): ReadonlyMap<string, Certainty> {
  const names = new Map<string, Certainty>()
  for (const deadlock of deadlocks) {
    for (const { waitsFor } of deadlock.cycle)
      names.set(waitsFor, surer(names.get(waitsFor), certaintyOf(deadlock)))
  }
  return names
}

/** Whether the one that is waited for waits in the same line, and may not be overtaken, as a writer before a reader. */
export function isBehind(step: DeadlockStep, { cycle }: Pick<Deadlock, 'cycle'>): boolean {
  return cycle.some(
    (other) => other !== step && other.waitsFor === step.waitsFor && other.waiter.ref === step.heldBy.ref,
  )
}
