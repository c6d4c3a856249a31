/** Judges a run in a thread of its own, and writes what is to be kept of it. */

import { parentPort, workerData } from 'node:worker_threads'
import type { JudgeJob } from '../torture/judge-thread.js'
import { judgeRun } from '../torture/judgement.js'
import { keepRecords } from '../torture/keeping.js'

const { record, tookMs, kept } = workerData as JudgeJob
parentPort?.postMessage(await keepRecords(judgeRun(record, tookMs), record.histories, kept))
