import { parentPort, workerData } from 'node:worker_threads'
import type { runSoaks, runWorlds } from './run.js'
import type { StoreType } from './stores/store.js'

/** What one worker thread is to run. */
export interface Job {
  /** The module that has `runWorlds`: the simulator itself, or a build of it with a fault planted. */
  readonly module: string
  readonly firstSeed: number
  readonly stride: number
  readonly steps: number
  readonly store: StoreType | undefined
  /** Instead of many short worlds, long ones with so many acquisitions each. */
  readonly soak: number | null
}

const job = workerData as Job
const run = (await import(job.module)) as { runWorlds: typeof runWorlds; runSoaks: typeof runSoaks }
const { firstSeed, stride, steps, store, soak } = job
const onWorld = (world: { readonly steps: number }): void => {
  parentPort?.postMessage({ steps: world.steps })
}
const tally =
  soak === null
    ? await run.runWorlds({ firstSeed, stride, steps, store, onWorld })
    : await run.runSoaks(firstSeed, stride, soak, onWorld)
parentPort?.postMessage({ tally })
