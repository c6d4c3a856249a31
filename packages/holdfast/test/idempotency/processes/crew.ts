/** Several processes that use one store, and what they leave behind where the store has no part in it. */

import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { atDepth } from '../../../../../test/support/depth.js'
import type { OnAbandoned, RunOptions, Target } from '../../../src/idempotency.js'

const SCRIPT = fileURLToPath(new URL('./worker.mjs', import.meta.url))

/**
 * For everything that follows, on a machine that has other things to do. Where every key has an owner that dies, a request may
 * lose one process after the other, each with a lease to wait for.
 */
export const PATIENCE_MS = atDepth(120_000, 300_000)

export type Failpoint = 'after-claim' | 'in-the-middle' | 'after-effect' | 'after-completion'

export interface Order {
  readonly target: Target
  readonly options?: Omit<RunOptions, 'onAbandoned'> & {
    readonly onAbandoned?: Extract<OnAbandoned<unknown>, string>
  }
  /** Where the process of the first attempt dies. */
  readonly failpoint?: Failpoint
  /** Whoever takes over says what came of it, without running it. */
  readonly reconciles?: boolean
  readonly waits?: 'until told' | 'until aborted'
}

export type Reply =
  | { readonly id: number; readonly kind: 'began'; readonly attempt: number; readonly fence: string }
  | { readonly id: number; readonly kind: 'aborted'; readonly code: string }
  | {
      readonly id: number
      readonly kind: 'done'
      readonly value: unknown
      readonly replayed: boolean
      readonly attempt: number
      readonly fence: string
    }
  | { readonly id: number; readonly kind: 'failed'; readonly code: string | null; readonly message: string }
  /** The process died before it said anything. */
  | { readonly id: number; readonly kind: 'died' }

export type Ended = Extract<Reply, { kind: 'done' | 'failed' | 'died' }>

/** One order that a process has. */
export class Job {
  readonly id: number
  readonly #process: ChildProcess
  readonly #replies: Reply[] = []
  readonly #listeners = new Set<() => void>()

  constructor(id: number, process: ChildProcess) {
    this.id = id
    this.#process = process
  }

  hear(reply: Reply): void {
    this.#replies.push(reply)
    for (const listener of this.#listeners) listener()
  }

  goOn(): void {
    this.#process.send({ id: this.id, goOn: true })
  }

  /** The first reply of a kind. An order that ends without one has failed the test. */
  async told<Kind extends Reply['kind']>(...kinds: readonly Kind[]): Promise<Extract<Reply, { kind: Kind }>> {
    const isMeant = (reply: Reply): reply is Extract<Reply, { kind: Kind }> =>
      (kinds as readonly string[]).includes(reply.kind)
    const endsAt = performance.now() + PATIENCE_MS
    for (;;) {
      const found = this.#replies.find(isMeant)
      if (found !== undefined) return found
      const last = this.#replies.at(-1)
      const isOver = last !== undefined && ['done', 'failed', 'died'].includes(last.kind)
      const patience = endsAt - performance.now()
      if (isOver || patience <= 0) {
        assert.fail(`No word of ${kinds.join(' or ')} came, but ${JSON.stringify(last ?? 'nothing')}.`)
      }
      await new Promise<void>((resolve) => {
        const heard = (): void => {
          clearTimeout(timer)
          this.#listeners.delete(heard)
          resolve()
        }
        const timer = setTimeout(heard, patience)
        this.#listeners.add(heard)
      })
    }
  }

  async end(): Promise<Ended> {
    return await this.told('done', 'failed', 'died')
  }
}

export class Worker {
  readonly #process: ChildProcess
  readonly #jobs = new Map<number, Job>()
  #isDead = false
  #ids = 0

  constructor(process: ChildProcess) {
    this.#process = process
    process.on('message', (reply: Reply) => this.#jobs.get(reply.id)?.hear(reply))
    process.once('exit', () => {
      this.#isDead = true
    })
    // The exit of a process may be noticed before its last words are read; its channel ends behind them.
    void Promise.all([once(process, 'exit'), once(process, 'disconnect')]).then(() => {
      for (const job of this.#jobs.values()) job.hear({ id: job.id, kind: 'died' })
    })
  }

  get isDead(): boolean {
    return this.#isDead
  }

  give(order: Order): Job {
    this.#ids += 1
    const job = new Job(this.#ids, this.#process)
    this.#jobs.set(job.id, job)
    if (this.#isDead) job.hear({ id: job.id, kind: 'died' })
    // A process that dies while it is told something says so by its end.
    else this.#process.send({ id: job.id, ...order }, () => undefined)
    return job
  }

  stop(): void {
    this.#process.kill('SIGSTOP')
  }

  goOn(): void {
    this.#process.kill('SIGCONT')
  }

  async kill(): Promise<void> {
    if (this.#isDead) return
    const exited = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await exited
  }
}

export interface Effect {
  readonly attempt: number
  readonly fence: bigint
  /** By the monotonic clock of the machine, in milliseconds: before the claim, and when the work began. */
  readonly calledAt: number
  readonly begunAt: number
  /** When it was told that it had lost its lease; null: it never was. */
  readonly abortedAt: number | null
}

/** Starts workers over one store, and knows what they did. */
export class Crew {
  readonly leaseMs: number
  readonly #url: string
  readonly #effects: string
  readonly #completions: string
  readonly #workers = new Set<Worker>()
  #survivor: Promise<Worker> | null = null
  #isClosed = false

  private constructor(url: string, leaseMs: number, folder: string) {
    this.#url = url
    this.leaseMs = leaseMs
    this.#effects = join(folder, 'effects')
    this.#completions = join(folder, 'completions')
  }

  static async begin(url: string, leaseMs: number, folder: string): Promise<Crew> {
    const crew = new Crew(url, leaseMs, folder)
    await Promise.all([crew.#effects, crew.#completions].map((path) => writeFile(path, '')))
    return crew
  }

  /** One that nothing happens to. */
  survivor(): Promise<Worker> {
    this.#survivor ??= this.worker()
    return this.#survivor
  }

  async worker(): Promise<Worker> {
    const args = [this.#url, String(this.leaseMs), this.#effects, this.#completions]
    const process = fork(SCRIPT, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    const worker = new Worker(process)
    this.#workers.add(worker)
    // One that comes too late for the test must not outlive it.
    if (this.#isClosed) await worker.kill()
    const exited = once(process, 'exit').then(() => null)
    const ready = worker.isDead ? null : await Promise.race([once(process, 'message'), exited])
    if (ready === null) throw new Error('A worker ended before it was ready; is the library built?')
    return worker
  }

  /** How many of its processes are dead. */
  get deaths(): number {
    return [...this.#workers].filter(({ isDead }) => isDead).length
  }

  /** How often an effect came about, counted where the store has no part in it. */
  async effectsOf(target: Target): Promise<number> {
    return (await this.attemptsOf(target)).length
  }

  /** The attempts that came to have an effect, in that order. */
  async attemptsOf({ key }: Target): Promise<readonly Effect[]> {
    const lines = (await linesOf(this.#effects)).map((line) => line.split(' ')).filter(([, of]) => of === key)
    const abortedAt = new Map(
      lines.flatMap(([kind, , attempt, at]) =>
        kind === 'aborted' ? [[Number(attempt), Number(at)] as const] : [],
      ),
    )
    return lines.flatMap(([kind, , number, fence = '', calledAt, begunAt]) => {
      if (kind !== 'effect') return []
      const attempt = Number(number)
      const times = { calledAt: Number(calledAt), begunAt: Number(begunAt) }
      return [{ attempt, fence: BigInt(fence), ...times, abortedAt: abortedAt.get(attempt) ?? null }]
    })
  }

  /** How often the store has said of each record that a completion was accepted. */
  async completions(): Promise<ReadonlyMap<string, number>> {
    const counts = new Map<string, number>()
    for (const ref of await linesOf(this.#completions)) counts.set(ref, (counts.get(ref) ?? 0) + 1)
    return counts
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#workers].map((worker) => worker.kill()))
  }
}

async function linesOf(path: string): Promise<readonly string[]> {
  return (await readFile(path, 'utf8')).split('\n').filter((line) => line !== '')
}

export function freshTarget(): Target {
  const scope = { tenant: 'acme', operation: 'order.create' }
  return { scope, key: randomBytes(12).toString('base64url'), input: { amount: 5 } }
}
