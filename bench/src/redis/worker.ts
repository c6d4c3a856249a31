/** What the workers of the Redis groups do. */

import { type Worker, withCrew, workAs } from '../crew.js'
import { contendTask } from './contend.js'
import { giveBackTask, listenTask, pingTask, takeTask, waitTask } from './hand-over-tasks.js'
import { fillTask, keepTask, passThroughTask, watchTask } from './stock-tasks.js'
import { Workplace } from './workplace.js'

/** The first argument that makes the program a worker of the Redis groups. */
export const REDIS_WORKER_FLAG = '--redis-worker'

const tasks = {
  contend: contendTask,
  take: takeTask,
  giveBack: giveBackTask,
  wait: waitTask,
  listen: listenTask,
  ping: pingTask,
  keep: keepTask,
  watch: watchTask,
  fill: fillTask,
  passThrough: passThroughTask,
}

export type RedisWorker = Worker<typeof tasks>

export async function workOnRedis(port: number): Promise<void> {
  await workAs(tasks, new Workplace(port))
}

export function withRedisCrew<R>(
  size: number,
  port: number,
  use: (crew: readonly RedisWorker[]) => Promise<R>,
): Promise<R> {
  return withCrew<typeof tasks, R>({ flag: REDIS_WORKER_FLAG, argument: String(port), size }, use)
}
