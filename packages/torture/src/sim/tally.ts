import type { WorldResult } from './world.js'

/** Plain data, because it passes between threads. */
export type Counts = Readonly<Record<string, number>>

/** What several worlds came to. */
export interface Tally {
  readonly worlds: number
  readonly steps: number
  readonly grants: number
  readonly losses: number
  readonly faults: number
  /** How many worlds each type of store had, and how often each kind of fault was injected. */
  readonly stores: Counts
  readonly faultKinds: Counts
  /** The first world that broke a promise, and how many steps had been done before it in all. */
  readonly failure: {
    readonly seed: number
    readonly atStep: number
    readonly kind: string
    readonly message: string
  } | null
}

export const NOTHING: Tally = {
  worlds: 0,
  steps: 0,
  grants: 0,
  losses: 0,
  faults: 0,
  stores: {},
  faultKinds: {},
  failure: null,
}

export function addTallies(a: Tally, b: Tally): Tally {
  return {
    worlds: a.worlds + b.worlds,
    steps: a.steps + b.steps,
    grants: a.grants + b.grants,
    losses: a.losses + b.losses,
    faults: a.faults + b.faults,
    stores: addCounts(a.stores, b.stores),
    faultKinds: addCounts(a.faultKinds, b.faultKinds),
    failure: a.failure ?? b.failure,
  }
}

export function withWorld(tally: Tally, result: WorldResult): Tally {
  const { seed, steps, grants, losses, faults, violation } = result
  const atStep = tally.steps + steps
  const failure =
    violation === null ? null : { seed, atStep, kind: violation.kind, message: violation.message }
  const stores = { [result.store]: 1 }
  const faultKinds = Object.fromEntries(result.faultsByKind)
  return addTallies(tally, { worlds: 1, steps, grants, losses, faults, stores, faultKinds, failure })
}

function addCounts(a: Counts, b: Counts): Counts {
  const sum: Record<string, number> = { ...a }
  for (const [name, count] of Object.entries(b)) sum[name] = (sum[name] ?? 0) + count
  return sum
}
