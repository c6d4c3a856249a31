/** The side of the schedule: a child process with one or several callers in it, as objects to play with. */

import { type ChildProcess, execFile, fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { PointAction } from './lock.js'
import type { ActorSetup, Command, Reply, Request } from './protocol.js'

interface Pending {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
}

type Unnumbered<T> = T extends unknown ? Omit<T, 'id'> : never

/** The actor's process was killed while it was asked something. Schedules that kill expect it. */
export class ActorGone extends Error {
  constructor(process: string, how: string) {
    super(`The process of actor ${process} has ended (${how}).`)
    this.name = 'ActorGone'
  }
}

/** The built entry file, wherever this module itself is loaded from. */
function actorFile(): string {
  const entry = createRequire(import.meta.url).resolve('holdfast-torture')
  const file = join(entry, '..', 'workers', 'lab-actor.js')
  if (!existsSync(file)) throw new Error('The workers are not built. Run `npm run build` first.')
  return file
}

export class ActorProcess {
  readonly name: string
  readonly #process: ChildProcess
  readonly #pending = new Map<number, Pending>()
  readonly #reached = new Set<string>()
  readonly #arrivals = new Map<string, () => void>()
  #errors = ''
  #asked = 0

  /** `library`: the build of the library that it uses, if it is not the one that everybody uses. */
  constructor(name: string, library?: string) {
    this.name = name
    this.#process = fork(actorFile(), [], {
      execArgv: [],
      ...(library === undefined ? {} : { env: { ...process.env, HOLDFAST_LAB_LIBRARY: library } }),
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors += text
    })
    this.#process.on('message', (reply: Reply) => this.#heard(reply))
    this.#process.on('exit', (code, signal) => {
      const gone = new ActorGone(name, `${signal ?? code}${this.#errors === '' ? '' : `: ${this.#errors}`}`)
      for (const { reject } of this.#pending.values()) reject(gone)
      this.#pending.clear()
    })
  }

  get isRunning(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null
  }

  open(setup: ActorSetup): Promise<unknown> {
    return this.#ask({ kind: 'open', setup })
  }

  obey(actor: string, command: Command): Promise<unknown> {
    return this.#ask({ kind: 'command', actor, command })
  }

  /** Resolves when the actor has come by the point; a passage that was before this call counts. */
  reaches(actor: string, point: string): Promise<void> {
    const place = `${actor} ${point}`
    if (this.#reached.delete(place)) return Promise.resolve()
    return new Promise((resolve) => this.#arrivals.set(place, resolve))
  }

  /** Resolves when the process has ended, by whatever. */
  async ended(): Promise<void> {
    if (this.isRunning) await once(this.#process, 'exit')
  }

  /** Whether a SIGSTOP has taken effect. */
  async isStopped(): Promise<boolean> {
    const { stdout } = await promisify(execFile)('ps', ['-o', 'stat=', '-p', String(this.#process.pid)])
    return stdout.trim().startsWith('T')
  }

  signal(name: NodeJS.Signals): void {
    if (this.isRunning) this.#process.kill(name)
  }

  async kill(): Promise<void> {
    if (!this.isRunning) return
    const ended = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await ended
  }

  #ask(request: Unnumbered<Request>): Promise<unknown> {
    if (!this.isRunning) return Promise.reject(new ActorGone(this.name, 'it was asked too late'))
    this.#asked += 1
    const id = this.#asked
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject })
      this.#process.send({ ...request, id }, undefined, {}, (error: Error | null) => {
        if (error !== null) reject(error)
      })
    })
  }

  #heard(reply: Reply): void {
    if (reply.kind === 'at') {
      const place = `${reply.actor} ${reply.point}`
      const arrived = this.#arrivals.get(place)
      this.#arrivals.delete(place)
      if (arrived === undefined) this.#reached.add(place)
      else arrived()
      return
    }
    const pending = this.#pending.get(reply.id)
    this.#pending.delete(reply.id)
    if (reply.kind === 'done') pending?.resolve(reply.value)
    else pending?.reject(new Error(reply.error))
  }
}

export interface Granted {
  readonly fence: string | null
}

/** One caller, as a schedule sees it. What it does is recorded where it happens, in its process. */
export class Actor {
  readonly name: string
  readonly process: ActorProcess
  readonly #lockName: string
  readonly #ttlMs: number

  constructor(process: ActorProcess, name: string, lockName: string, ttlMs: number) {
    this.process = process
    this.name = name
    this.#lockName = lockName
    this.#ttlMs = ttlMs
  }

  /** Null if it was not to be had in time. */
  acquire({ waitMs = 0, ttlMs = this.#ttlMs, name = this.#lockName } = {}): Promise<Granted | null> {
    return this.#obey({ do: 'acquire', name, ttlMs, waitMs })
  }

  release(name = this.#lockName): Promise<void> {
    return this.#obey({ do: 'release', name })
  }

  /** Whether it is told that it still holds the lock. */
  assert(name = this.#lockName): Promise<boolean> {
    return this.#obey({ do: 'assert', name })
  }

  extend(name = this.#lockName): Promise<boolean> {
    return this.#obey({ do: 'extend', name })
  }

  read(name = this.#lockName): Promise<readonly number[]> {
    return this.#obey({ do: 'read', name })
  }

  /** Replaces what is there. 'accepted', or why not. With `check` it asks its lock first. */
  write(value: number, { check = false, name = this.#lockName } = {}): Promise<string> {
    return this.#obey({ do: 'write', name, value, check })
  }

  /** Reads what is there, asks its lock, comes by `between check and write`, and writes it with one value more. */
  add(value: number, { check = true, name = this.#lockName } = {}): Promise<string> {
    return this.#obey({ do: 'add', name, value, check })
  }

  act(what: string, input: unknown = null): Promise<unknown> {
    return this.#obey({ do: 'act', what, input })
  }

  /** Lets a fault strike when the recipe comes by the point, once. */
  arm(point: string, action: PointAction): Promise<void> {
    return this.#obey({ do: 'arm', point, action })
  }

  /** Resolves when it has come by a point that was armed with `stop` or `wait`. */
  reaches(point: string): Promise<void> {
    return this.process.reaches(this.name, point)
  }

  /** Lets it pass a point that was armed with `wait`. */
  go(point: string): Promise<void> {
    return this.#obey({ do: 'go', point })
  }

  /** Sets the wall clock of its process wrong: what `Date.now()` says, to the recipes and to the library. */
  setClock(aheadMs: number): Promise<void> {
    return this.#obey({ do: 'clock', aheadMs })
  }

  close(): Promise<void> {
    return this.#obey({ do: 'close' })
  }

  /**
   * Schedules begin calls and await them later. One that fails before that, or because the schedule broke off and its
   * process was ended, must not end the whole run as a rejection that nobody handles.
   */
  #obey<T>(command: Command): Promise<T> {
    const call = this.process.obey(this.name, command) as Promise<T>
    call.catch(() => {})
    return call
  }
}
