/** `run()`: the error of the work wins, and a loss is never passed over. */

import { LockLostError } from 'holdfast'
import type { NamePlan } from '../names.js'
import { workAlone } from '../section.js'
import type { Bench } from './bench.js'

class OwnError extends Error {}

export async function useRun(bench: Bench, plan: NamePlan): Promise<void> {
  const { random, scene } = bench.setup
  const own = random.chance(0.3) ? new OwnError('of the work') : null
  // A short limit makes losses, which `run()` has to report.
  const options = random.chance(0.5) ? { maxHoldMs: random.whole(1, 15) } : {}
  let wasLost = false
  try {
    const value = await bench.lockOf(plan).run(async (hold) => {
      await workAlone(hold, scene, random).catch((error: unknown) => {
        if (!(error instanceof LockLostError)) throw error
      })
      wasLost = hold.signal.aborted
      if (own !== null) throw own
      return plan.name
    }, options)
    if (wasLost)
      bench.complain(plan.name, 'run() returned a value although the lock was lost during the work.')
    if (own !== null) bench.complain(plan.name, 'run() returned a value although the work threw an error.')
    else if (value !== plan.name) bench.complain(plan.name, 'run() returned another value than the work did.')
  } catch (error) {
    if (error === own) return
    if (own !== null && error instanceof LockLostError) {
      bench.complain(plan.name, 'run() rejected with the loss, and not with the error of the work.')
    }
    throw error
  }
}
