import { parentPort, workerData } from 'node:worker_threads'
import type { runWorlds } from './run.js'

/** What one worker thread is to run. */
export interface Job {
  /** The module that has `runWorlds`: the simulator itself, or a build of it with a fault planted. */
  readonly module: string
  readonly firstSeed: number
  readonly stride: number
  readonly steps: number
}

const job = workerData as Job
const run = (await import(job.module)) as { runWorlds: typeof runWorlds }
const tally = await run.runWorlds(job.firstSeed, job.stride, job.steps, ({ steps }) => {
  parentPort?.postMessage({ steps })
})
parentPort?.postMessage({ tally })
