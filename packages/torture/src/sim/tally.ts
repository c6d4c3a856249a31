import type { WorldResult } from './world.js'

/** What several worlds came to. */
export interface Tally {
  readonly worlds: number
  readonly steps: number
  readonly grants: number
  readonly losses: number
  readonly faults: number
  /** The first world that broke a promise, and how many steps had been done before it in all. */
  readonly failure: {
    readonly seed: number
    readonly atStep: number
    readonly kind: string
    readonly message: string
  } | null
}

export const NOTHING: Tally = { worlds: 0, steps: 0, grants: 0, losses: 0, faults: 0, failure: null }

export function addTallies(a: Tally, b: Tally): Tally {
  return {
    worlds: a.worlds + b.worlds,
    steps: a.steps + b.steps,
    grants: a.grants + b.grants,
    losses: a.losses + b.losses,
    faults: a.faults + b.faults,
    failure: a.failure ?? b.failure,
  }
}

export function withWorld(
  tally: Tally,
  { seed, steps, grants, losses, faults, violation }: WorldResult,
): Tally {
  const atStep = tally.steps + steps
  const failure =
    violation === null ? null : { seed, atStep, kind: violation.kind, message: violation.message }
  return addTallies(tally, { worlds: 1, steps, grants, losses, faults, failure })
}
