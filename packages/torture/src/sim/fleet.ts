import { fileURLToPath, pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import type { StoreType } from './stores/store.js'
import { addTallies, NOTHING, type Tally } from './tally.js'
import type { Job } from './worker.js'

export interface FleetOptions {
  readonly module?: string
  readonly firstSeed: number
  readonly steps: number
  readonly threads: number
  readonly store?: StoreType | undefined
  /** Instead of many short worlds, long ones with so many acquisitions each. */
  readonly soak?: number
  readonly onSteps?: (steps: number) => void
}

/** Spreads the seeds over threads, and stops them all at the first failure. */
export async function runFleet(options: FleetOptions): Promise<Tally> {
  const module = options.module ?? fileURLToPath(new URL('./run.js', import.meta.url))
  const workers: Worker[] = []
  const tallies = Array.from({ length: options.threads }, (_, index) => {
    const job: Job = {
      module: pathToFileURL(module).href,
      firstSeed: options.firstSeed + index,
      stride: options.threads,
      steps: Math.ceil(options.steps / options.threads),
      store: options.store,
      soak: options.soak ?? null,
    }
    const worker = new Worker(new URL('./worker.js', import.meta.url), { workerData: job })
    workers.push(worker)
    return tallyOf(worker, options.onSteps).then(async (tally) => {
      if (tally.failure !== null) await Promise.all(workers.map((other) => other.terminate()))
      return tally
    })
  })
  return (await Promise.all(tallies)).reduce(addTallies)
}

function tallyOf(worker: Worker, onSteps: ((steps: number) => void) | undefined): Promise<Tally> {
  return new Promise((resolve, reject) => {
    worker.on('message', (message: { steps?: number; tally?: Tally }) => {
      if (message.tally !== undefined) resolve(message.tally)
      else onSteps?.(message.steps ?? 0)
    })
    worker.on('error', reject)
    // A thread that was stopped because another one failed has nothing to say.
    worker.on('exit', () => resolve(NOTHING))
  })
}
