import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

interface Waiting {
  readonly kind: string
  readonly settle: (message: object) => void
  readonly fail: (error: Error) => void
}

/** One worker process and what it has said so far. */
export class Child {
  readonly #process: ChildProcess
  readonly #unread: object[] = []
  readonly #waiting = new Set<Waiting>()
  #errors = ''
  #end: Error | null = null

  constructor(path: string, args: readonly string[], onMessage: (message: object) => void) {
    this.#process = fork(path, args, {
      execPath: process.execPath,
      execArgv: [],
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    })
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors += text
    })
    this.#process.on('message', (message: object) => {
      this.#heard(message)
      onMessage(message)
    })
    this.#process.on('close', (code, signal) => {
      this.#end = new Error(`The worker ended (${signal ?? code}) without an answer. ${this.#errors}`)
      for (const { fail } of this.#waiting) fail(this.#end)
    })
  }

  get pid(): number {
    return this.#process.pid as number
  }

  /** What it wrote to its standard error, which in a good run is nothing. */
  get errors(): string {
    return this.#errors
  }

  get isRunning(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null
  }

  say(kind: string): void {
    this.#process.send({ kind })
  }

  signal(name: NodeJS.Signals): void {
    if (this.isRunning) this.#process.kill(name)
  }

  /** The next message of this kind; those that came already count. Rejects if the worker ends without it. */
  hear<M extends { readonly kind: string }>(kind: M['kind']): Promise<M> {
    const index = this.#unread.findIndex((message) => Reflect.get(message, 'kind') === kind)
    if (index >= 0) return Promise.resolve(this.#unread.splice(index, 1)[0] as M)
    if (this.#end !== null) return Promise.reject(this.#end)
    return new Promise((settle, fail) => {
      const waiting = { kind, settle: settle as (message: object) => void, fail }
      this.#waiting.add(waiting)
    })
  }

  async kill(): Promise<void> {
    if (!this.isRunning) return
    const ended = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await ended
  }

  #heard(message: object): void {
    for (const waiting of this.#waiting) {
      if (waiting.kind !== Reflect.get(message, 'kind')) continue
      this.#waiting.delete(waiting)
      waiting.settle(message)
      return
    }
    this.#unread.push(message)
  }
}

/** The workers of one test, so that none outlives it. */
export class Children {
  readonly #all: Child[] = []

  start(
    worker: string,
    args: readonly (string | number)[],
    onMessage: (message: object) => void = () => {},
  ): Child {
    const path = fileURLToPath(new URL(`../dist/workers/${worker}.js`, import.meta.url))
    if (!existsSync(path)) throw new Error('The workers are not built. Run `npm run build` first.')
    const child = new Child(path, args.map(String), onMessage)
    this.#all.push(child)
    return child
  }

  get running(): readonly Child[] {
    return this.#all.filter((child) => child.isRunning)
  }

  /** What any of them complained about. */
  get errors(): string {
    return this.#all.map(({ errors }) => errors).join('')
  }

  async stopAll(): Promise<void> {
    await Promise.all(this.#all.map((child) => child.kill()))
  }
}
