/** Processes that do as they are told. They stay for a whole group, so that nobody is measured while it starts. */

import { type ChildProcess, fork } from 'node:child_process'

/** What workers of one kind can be told to do. The first argument of a task is what its tasks share. */
// oxlint-disable-next-line no-explicit-any -- each task has an ask and an answer of its own
export type Tasks = Readonly<Record<string, (shared: any, ask: any) => Promise<unknown>>>

export type Ask<T extends Tasks, Name extends keyof T> = Parameters<T[Name]>[1]
export type Answer<T extends Tasks, Name extends keyof T> = Awaited<ReturnType<T[Name]>>

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

export class Worker<T extends Tasks> {
  readonly #child: ChildProcess
  readonly #pending = new Map<number, Pending>()
  readonly #ended: Promise<void>
  #lastId = 0

  /** `flag` makes the program a worker, and `argument` tells it where to work. */
  constructor(flag: string, argument: string) {
    const program = process.argv[1] as string
    // The advanced form carries arrays of numbers without writing them out as text.
    this.#child = fork(program, [flag, argument], { serialization: 'advanced' })
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

  call<Name extends keyof T & string>(task: Name, ask: Ask<T, Name>): Promise<Answer<T, Name>> {
    this.#lastId += 1
    const order: Order = { id: this.#lastId, task, ask }
    return new Promise<Answer<T, Name>>((resolve, reject) => {
      this.#pending.set(order.id, { resolve: (answer) => resolve(answer as Answer<T, Name>), reject })
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

export async function withCrew<T extends Tasks, R>(
  { flag, argument, size }: { readonly flag: string; readonly argument: string; readonly size: number },
  use: (crew: readonly Worker<T>[]) => Promise<R>,
): Promise<R> {
  const crew = Array.from({ length: size }, () => new Worker<T>(flag, argument))
  try {
    return await use(crew)
  } finally {
    await Promise.all(crew.map((worker) => worker.end()))
  }
}

/** The program of a worker: carries out orders until the benchmark that gave them is gone. */
export async function workAs<Shared>(tasks: Tasks, shared: Shared): Promise<void> {
  process.on('message', (order: Order) => {
    void carryOut(tasks, shared, order).then((reply) => process.send?.(reply))
  })
  await new Promise((resolve) => {
    process.once('disconnect', resolve)
  })
  process.exit(0)
}

async function carryOut<Shared>(tasks: Tasks, shared: Shared, { id, task, ask }: Order): Promise<Reply> {
  try {
    return { id, answer: await tasks[task]?.(shared, ask) }
  } catch (error) {
    return { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }
}
