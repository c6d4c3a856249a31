import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { markAsKilled } from '../oracles/tripwire.js'
import type { Guard } from './guard.js'
import type { WorkerHealth } from './health.js'
import type { FromWorker, RegisterSetup, ToWorker, WorkerCounts, WorkerSetup } from './protocol.js'

const NO_COUNTS: WorkerCounts = {
  acquired: 0,
  lost: 0,
  refused: 0,
  unknown: 0,
  waiting: 0,
  waitingSince: null,
  waitingFor: null,
}

/**
 * The built file of a program. Entry files stand in dist/workers, and what is bundled of this folder stands in dist or in one
 * of its folders.
 */
export function programOf(name: string): string {
  const here = new URL(import.meta.url)
  const root = here.pathname.includes('/dist/') ? here.href.slice(0, here.href.lastIndexOf('/dist/') + 6) : ''
  return fileURLToPath(
    root === '' ? new URL(`../../dist/workers/${name}.js`, here) : `${root}workers/${name}.js`,
  )
}

type Env = Readonly<Record<string, string>>

/** One process of the run, ours to end. */
class Member {
  readonly process: ChildProcess
  readonly gone: Promise<void>
  #isGone = false
  #errors = ''

  constructor(program: string, setup: WorkerSetup | RegisterSetup, guard: Guard, env: Env = {}) {
    // The flags of this process, such as those of a debugger, are not for the workers. These measure what they keep.
    this.process = fork(programOf(program), [JSON.stringify(setup)], {
      execArgv: ['--expose-gc'],
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    if (this.process.pid !== undefined) guard.watch(this.process.pid)
    this.process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = `${this.#errors}${text}`.slice(-4_000)
    })
    // The exit of a process can be noticed before its last messages are read; its channel ends behind them.
    const ended = ['exit', 'disconnect'].map(
      (event) => new Promise<void>((resolve) => void this.process.once(event, () => resolve())),
    )
    const failed = new Promise<void>((resolve) => void this.process.once('error', () => resolve()))
    this.gone = Promise.race([Promise.all(ended), failed]).then(() => {
      this.#isGone = true
    })
  }

  /** Whether more can be heard of it. */
  get isRunning(): boolean {
    return !this.#isGone
  }

  /** What it wrote to its standard error, which in a good run is nothing. */
  get errors(): string {
    return this.#errors
  }

  async kill(): Promise<void> {
    if (this.isRunning) this.process.kill('SIGKILL')
    await this.gone
  }
}

export class WorkerProcess extends Member {
  readonly setup: WorkerSetup
  counts = NO_COUNTS
  /** What it kept; null while it is at work, and if it was killed. */
  health: WorkerHealth | null = null
  isReady = false
  isDone = false
  /** It was ended on purpose. */
  wasKilled = false

  constructor(setup: WorkerSetup, guard: Guard, env: Env) {
    super('torture-worker', setup, guard, env)
    this.setup = setup
    this.process.on('message', (message: FromWorker) => {
      if (message.kind === 'ready') this.isReady = true
      else this.counts = message.counts
      if (message.kind !== 'done') return
      this.isDone = true
      this.health = message.health
    })
  }

  get name(): string {
    return this.setup.process
  }

  send(message: ToWorker): void {
    // A worker that ends at this moment has no ear left, and needs none.
    if (this.process.connected) this.process.send(message, () => undefined)
  }

  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    if (this.isRunning) this.process.kill(name)
  }

  override async kill(): Promise<void> {
    this.wasKilled = true
    markAsKilled(this.setup.scene, this.name)
    await super.kill()
  }
}

/** All processes of a run. A place in it stays when the worker in it is killed, and gets a new one. */
export class Crew {
  readonly #guard: Guard
  readonly #setupOf: (place: number, generation: number) => WorkerSetup
  readonly #env: Env
  readonly #places = new Map<number, WorkerProcess>()
  readonly #generations = new Map<number, number>()
  readonly everybody: WorkerProcess[] = []
  #register: Member | null = null

  constructor(guard: Guard, setupOf: (place: number, generation: number) => WorkerSetup, env: Env = {}) {
    this.#guard = guard
    this.#setupOf = setupOf
    this.#env = env
  }

  /** Starts the register, and settles when it can be asked. */
  async startRegister(setup: RegisterSetup): Promise<void> {
    const member = new Member('torture-register', setup, this.#guard)
    this.#register = member
    await Promise.race([once(member.process, 'message'), member.gone])
    if (!member.isRunning) throw new Error(`The fenced register did not start. ${member.errors}`)
  }

  /** Puts a worker into a place, the first one or the next one. */
  start(place: number): WorkerProcess {
    const generation = (this.#generations.get(place) ?? 0) + 1
    this.#generations.set(place, generation)
    const worker = new WorkerProcess(this.#setupOf(place, generation), this.#guard, this.#env)
    this.#places.set(place, worker)
    this.everybody.push(worker)
    return worker
  }

  at(place: number): WorkerProcess | undefined {
    return this.#places.get(place)
  }

  /** Who is at work now. */
  get present(): readonly WorkerProcess[] {
    return [...this.#places.values()]
  }

  get registerErrors(): string {
    return this.#register?.errors ?? ''
  }

  async end(): Promise<void> {
    const members = [...this.everybody, ...(this.#register === null ? [] : [this.#register])]
    await Promise.all(members.filter(({ isRunning }) => isRunning).map((member) => member.kill()))
  }
}
