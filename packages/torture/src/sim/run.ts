import type { StoreType } from './stores/store.js'
import { NOTHING, type Tally, withWorld } from './tally.js'
import { World, type WorldResult } from './world.js'

export { runSoaks, Soak } from './soak.js'

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
  for (let seed = firstSeed; tally.steps < steps && tally.failure === null; seed += stride) {
    const result = await new World(seed, { store }).run(STEPS_PER_WORLD)
    onWorld?.(result)
    tally = withWorld(tally, result)
  }
  return tally
}
