import { World, type WorldResult } from './world.js'

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

/** How long one world storms. Long enough for several leases, short enough for many seeds. */
export const STEPS_PER_WORLD = 2_500

/** Runs worlds of consecutive seeds until `steps` steps are done in all, or one fails. */
export async function runWorlds(
  firstSeed: number,
  stride: number,
  steps: number,
  onWorld?: (result: WorldResult) => void,
): Promise<Tally> {
  const tally = { worlds: 0, steps: 0, grants: 0, losses: 0, faults: 0 }
  for (let seed = firstSeed; tally.steps < steps; seed += stride) {
    const result = await new World(seed).run(STEPS_PER_WORLD)
    tally.worlds += 1
    tally.steps += result.steps
    tally.grants += result.grants
    tally.losses += result.losses
    tally.faults += result.faults
    onWorld?.(result)
    if (result.violation !== null) {
      const { kind, message } = result.violation
      return { ...tally, failure: { seed, atStep: tally.steps, kind, message } }
    }
  }
  return { ...tally, failure: null }
}
