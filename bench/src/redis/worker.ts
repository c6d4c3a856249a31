/** The program of a worker: carries out orders until the benchmark that gave them is gone. */

import { contendTask } from './contend.js'
import type { Order, Reply } from './crew.js'
import { giveBackTask, listenTask, pingTask, takeTask, waitTask } from './hand-over-tasks.js'
import { fillTask, keepTask, passThroughTask, watchTask } from './stock-tasks.js'
import { Workplace } from './workplace.js'

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

export type TaskName = keyof typeof tasks
export type Ask<T extends TaskName> = Parameters<(typeof tasks)[T]>[1]
export type Answer<T extends TaskName> = Awaited<ReturnType<(typeof tasks)[T]>>

type AnyTask = (workplace: Workplace, ask: unknown) => Promise<unknown>

/** Resolves when the parent has gone; what is still open then ends with the process. */
export async function workOnRedis(port: number): Promise<void> {
  const workplace = new Workplace(port)
  process.on('message', (order: Order) => {
    void carryOut(workplace, order).then((reply) => process.send?.(reply))
  })
  await new Promise((resolve) => {
    process.once('disconnect', resolve)
  })
  process.exit(0)
}

async function carryOut(workplace: Workplace, { id, task, ask }: Order): Promise<Reply> {
  try {
    const run = tasks[task as TaskName] as AnyTask
    return { id, answer: await run(workplace, ask) }
  } catch (error) {
    return { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }
}
