/** Several processes that want one lock on one file, for information: how often it changes hands between them. */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'holdfast'
import { percentile } from '../rotation.js'

export interface Contention {
  readonly processes: number
  readonly handOversPerSecond: number
  readonly waitP50Ms: number
  readonly waitP99Ms: number
  readonly waitMaxMs: number
}

interface WorkerResult {
  readonly waitsMs: readonly number[]
}

/** The first argument that makes the program a worker instead of the benchmark. */
export const WORKER_FLAG = '--worker'

export async function contend(url: string, processes: number, forMs: number): Promise<Contention> {
  const program = process.argv[1] as string
  const workers = Array.from({ length: processes }, () => fork(program, [WORKER_FLAG, url, String(forMs)]))
  // Together from the first to the last moment: a process that is alone for a while counts more than all the others.
  await Promise.all(workers.map(nextMessage))
  const results = await Promise.all(
    workers.map((worker) => {
      worker.send('go')
      return nextMessage(worker) as Promise<WorkerResult>
    }),
  )
  const waits = results.flatMap(({ waitsMs }) => waitsMs)
  return {
    processes,
    handOversPerSecond: waits.length / (forMs / 1_000),
    waitP50Ms: percentile(waits, 50),
    waitP99Ms: percentile(waits, 99),
    waitMaxMs: percentile(waits, 100),
  }
}

function nextMessage(worker: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('exit', (code) => reject(new Error(`A worker of the benchmark ended with ${code}.`)))
  })
}

/** The worker's own part: takes the lock and gives it back, over and over. */
export async function contendAsWorker(url: string, forMs: number): Promise<void> {
  const locks = await connect(url)
  const mutex = locks.mutex('bench')
  process.send?.('ready')
  await once(process, 'message')
  const since = performance.now()
  const waitsMs: number[] = []
  while (performance.now() - since < forMs) {
    const asked = performance.now()
    const hold = await mutex.acquire()
    waitsMs.push(performance.now() - asked)
    await hold.release()
  }
  const result: WorkerResult = { waitsMs }
  await locks.close()
  process.send?.(result)
  process.disconnect()
}
