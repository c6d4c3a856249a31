import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { FromWorker, ToWorker, WorkerSetup } from './protocol.js'

/** How long a worker may take to leave in order before it is ended. */
const LEAVE_MS = 3_000

export type WorkerState = 'starting' | 'waiting' | 'holding' | 'resting' | 'killed' | 'ended'

/** One worker process, as the demonstration knows it from its messages. */
export class Worker {
  readonly number: number
  readonly #process: ChildProcess
  readonly #gone: Promise<void>
  state: WorkerState = 'starting'
  increments = 0
  fence: bigint | null = null

  constructor(setup: WorkerSetup, onMessage: (worker: Worker, message: FromWorker) => void) {
    this.number = setup.worker
    const program = fileURLToPath(new URL('./demo-worker.js', import.meta.url))
    // The flags of this process, such as those of a debugger, are not for the workers.
    this.#process = fork(program, [JSON.stringify(setup)], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.#gone = new Promise((resolve) => {
      this.#process.once('exit', () => {
        if (this.state !== 'killed') this.state = 'ended'
        resolve()
      })
      this.#process.once('error', () => resolve())
    })
    this.#process.on('message', (message) => {
      // What a killed worker said last may arrive after the kill, and must not bring it back to life.
      if (this.state !== 'killed') this.#take(message as FromWorker, onMessage)
    })
    this.#process.stderr?.on('data', (chunk: Buffer) => {
      onMessage(this, { type: 'failed', message: chunk.toString('utf8').trim().slice(0, 500) })
    })
  }

  get pid(): number {
    return this.#process.pid ?? -1
  }

  get name(): string {
    return `worker ${this.number}`
  }

  tell(message: ToWorker): void {
    // A worker that has ended is told nothing; the callback takes the error that would otherwise be thrown.
    if (this.#process.connected) this.#process.send(message, () => undefined)
  }

  /** kill -9: no handler runs, nothing is released. */
  kill(): void {
    this.state = 'killed'
    this.#process.kill('SIGKILL')
  }

  async leave(): Promise<void> {
    this.tell({ type: 'stop' })
    const timer = setTimeout(() => this.#process.kill('SIGKILL'), LEAVE_MS)
    await this.#gone
    clearTimeout(timer)
  }

  #take(message: FromWorker, onMessage: (worker: Worker, message: FromWorker) => void): void {
    switch (message.type) {
      case 'ready':
      case 'waiting':
        this.state = 'waiting'
        break
      case 'granted':
        this.state = 'holding'
        this.fence = BigInt(message.fence)
        break
      case 'counted':
        this.state = 'resting'
        this.increments += 1
        break
      case 'lost':
        this.state = 'resting'
        break
      case 'failed':
        break
    }
    onMessage(this, message)
  }
}
