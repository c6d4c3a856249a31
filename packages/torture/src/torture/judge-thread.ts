import { Worker } from 'node:worker_threads'
import { programOf } from './crew.js'
import type { RunRecord } from './judgement.js'
import type { KeepOptions } from './keeping.js'
import type { TortureOutcome } from './outcome.js'

export interface JudgeJob {
  readonly record: RunRecord
  readonly tookMs: number
  readonly kept: KeepOptions
}

/**
 * Judges a run in a thread of its own. To judge a long history takes seconds, and in that time the relays of other runs, which
 * are in this process, would stand still.
 */
export function judgeInThread(job: JudgeJob): Promise<TortureOutcome> {
  const thread = new Worker(programOf('judge'), { workerData: job })
  return new Promise((resolve, reject) => {
    thread.once('message', resolve)
    thread.once('error', reject)
    thread.once('exit', () => reject(new Error('The run was not judged.')))
  })
}
