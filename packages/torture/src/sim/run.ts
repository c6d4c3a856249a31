import type { StoreType } from './stores/store.js'
import { World, type WorldResult } from './world.js'

/** Plain data, because it passes between threads. */
export type Counts = Readonly<Record<string, number>>

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

/** How long one world storms. Long enough for several leases, short enough for many seeds. */
export const STEPS_PER_WORLD = 2_500

export interface RunOptions {
  readonly firstSeed: number
  readonly stride: number
  readonly steps: number
  /** The type of store of every world. Left out: the seeds decide. */
  readonly store?: StoreType | undefined
  readonly onWorld?: (result: WorldResult) => void
}

/** Runs worlds of consecutive seeds until `steps` steps are done in all, or one fails. */
export async function runWorlds({ firstSeed, stride, steps, store, onWorld }: RunOptions): Promise<Tally> {
  let tally = NOTHING
  for (let seed = firstSeed; tally.steps < steps; seed += stride) {
    const result = await new World(seed, { store }).run(STEPS_PER_WORLD)
    tally = addTallies(tally, tallyOf(result))
    onWorld?.(result)
    if (result.violation !== null) {
      const { kind, message } = result.violation
      return { ...tally, failure: { seed, atStep: tally.steps, kind, message } }
    }
  }
  return tally
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

function tallyOf({ steps, grants, losses, faults, store, faultsByKind }: WorldResult): Tally {
  const faultKinds = Object.fromEntries(faultsByKind)
  return { worlds: 1, steps, grants, losses, faults, stores: { [store]: 1 }, faultKinds, failure: null }
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

function addCounts(a: Counts, b: Counts): Counts {
  const sum: Record<string, number> = { ...a }
  for (const [name, count] of Object.entries(b)) sum[name] = (sum[name] ?? 0) + count
  return sum
}
