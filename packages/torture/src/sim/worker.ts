import { parentPort, workerData } from 'node:worker_threads'
import type { runWorlds } from './run.js'
import type { StoreType } from './stores/store.js'

/** What one worker thread is to run. */
export interface Job {
  /** The module that has `runWorlds`: the simulator itself, or a build of it with a fault planted. */
  readonly module: string
  readonly firstSeed: number
  readonly stride: number
  readonly steps: number
  readonly store: StoreType | undefined
}

const job = workerData as Job
const run = (await import(job.module)) as { runWorlds: typeof runWorlds }
const { firstSeed, stride, steps, store } = job
const onWorld = (world: { readonly steps: number }): void => {
  parentPort?.postMessage({ steps: world.steps })
}
const tally = await run.runWorlds({ firstSeed, stride, steps, store, onWorld })
parentPort?.postMessage({ tally })
