/** Processes that do as they are told. They stay for a whole group, so that nobody is measured while it starts. */

import { type ChildProcess, fork } from 'node:child_process'
import type { Answer, Ask, TaskName } from './worker.js'

/** The first argument that makes the program a worker of the Redis groups. */
export const REDIS_WORKER_FLAG = '--redis-worker'

export interface Order {
  readonly id: number
  readonly task: string
  readonly ask: unknown
}

export type Reply =
  | { readonly id: number; readonly answer: unknown }
  | { readonly id: number; readonly error: string }

interface Pending {
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: Error) => void
}

export class Worker {
  readonly #child: ChildProcess
  readonly #pending = new Map<number, Pending>()
  readonly #ended: Promise<void>
  #lastId = 0

  constructor(port: number) {
    const program = process.argv[1] as string
    // The advanced form carries arrays of numbers without writing them out as text.
    this.#child = fork(program, [REDIS_WORKER_FLAG, String(port)], { serialization: 'advanced' })
    this.#child.on('message', (reply: Reply) => this.#settle(reply))
    this.#ended = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => {
        for (const { reject } of this.#pending.values()) {
          reject(new Error(`A worker of the benchmark ended with ${code ?? signal}.`))
        }
        resolve()
      })
    })
  }

  call<T extends TaskName>(task: T, ask: Ask<T>): Promise<Answer<T>> {
    this.#lastId += 1
    const order: Order = { id: this.#lastId, task, ask }
    return new Promise<Answer<T>>((resolve, reject) => {
      this.#pending.set(order.id, { resolve: (answer) => resolve(answer as Answer<T>), reject })
      this.#child.send(order)
    })
  }

  /** Whatever it still holds ends with its connection or with its lease. */
  async end(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#ended
  }

  #settle(reply: Reply): void {
    const pending = this.#pending.get(reply.id)
    this.#pending.delete(reply.id)
    if ('error' in reply) pending?.reject(new Error(`A worker of the benchmark failed: ${reply.error}`))
    else pending?.resolve(reply.answer)
  }
}

export async function withCrew<T>(
  size: number,
  port: number,
  use: (crew: readonly Worker[]) => Promise<T>,
): Promise<T> {
  const crew = Array.from({ length: size }, () => new Worker(port))
  try {
    return await use(crew)
  } finally {
    await Promise.all(crew.map((worker) => worker.end()))
  }
}
