/**
 * Process lifetime: a program whose only activity is waiting finishes its work before it ends, and ends by itself after
 * `close()`. This process holds what the program waits for.
 */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Locks } from 'holdfast'
import { recordsUrlOf } from '../places.js'
import { type Finding, freshName, type Library, type Recipe } from '../subject.js'
import { came, LIMIT_MS, messageOf } from '../waiting.js'
import { holdAs } from './holding.js'
import type { Held } from './lifetime-cases.js'
import type { FromWaiter, ToWaiter, WaiterSetup } from './lifetime-protocol.js'

export interface LifetimeOptions {
  /** The build of the library that the program uses, as something to import. */
  readonly program: string
  /** What this process holds the locks with. */
  readonly library: Library
  /** Only cases with this text in their name. */
  readonly only?: string
}

/** How long the program may need for one case before it counts as stuck. */
const STUCK_MS = 2 * LIMIT_MS
/** Enough for a waiter to ask the store. If it is too short, the wait is shorter, and no result changes. */
const SETTLE_MS = 60
const QUEUED: readonly Held[] = ['mutex', 'write', 'semaphore']

export async function lifetime(
  recipe: Recipe,
  { program, library, only = '' }: LifetimeOptions,
): Promise<readonly Finding[]> {
  const setup: WaiterSetup = {
    library: program,
    url: recipe.url,
    recordsUrl: recordsUrlOf(recipe),
    ttlMs: recipe.ttlMs,
    prefix: freshName('lifetime'),
    only,
  }
  // Another process cannot reach the store in memory, and holds nothing there.
  const locks = await library.holdfast.connect(recipe.url)
  const run = new WaiterRun(setup, locks, library)
  try {
    return await run.findings()
  } finally {
    await locks.close()
  }
}

/** The built program, wherever this module itself is loaded from. */
function programFile(): string {
  return join(
    createRequire(import.meta.url).resolve('holdfast-torture'),
    '..',
    'workers',
    'surroundings-waiter.js',
  )
}

class WaiterRun {
  readonly #setup: WaiterSetup
  readonly #locks: Locks
  readonly #library: Library
  readonly #findings: Finding[] = []
  readonly #releases = new Map<string, () => Promise<void>>()
  readonly #program: ChildProcess
  #errors = ''
  #lastHeardAt = performance.now()
  #last = 'the start'
  #resources: readonly string[] = []
  #isOver = false

  constructor(setup: WaiterSetup, locks: Locks, library: Library) {
    this.#setup = setup
    this.#locks = locks
    this.#library = library
    this.#program = fork(programFile(), [JSON.stringify(setup)], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.#program.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors += text
    })
    this.#program.on('message', (message: FromWaiter) => void this.#heard(message))
  }

  async findings(): Promise<readonly Finding[]> {
    const ended = once(this.#program, 'close') as Promise<[number | null, NodeJS.Signals | null]>
    const watch = setInterval(() => this.#endIfStuck(), 500)
    try {
      const [code, signal] = await ended
      this.#judgeEnd(code, signal)
    } finally {
      clearInterval(watch)
      await Promise.allSettled([...this.#releases.values()].map((release) => release()))
    }
    return this.#findings
  }

  #judgeEnd(code: number | null, signal: NodeJS.Signals | null): void {
    if (signal !== null) {
      const message = this.#isOver
        ? `did not end after close(); what kept it running: ${this.#resources.join(', ') || 'nothing that Node lists'}`
        : `was stuck after ${this.#last}`
      this.#add('the program', message)
    } else if (code !== 0) {
      this.#add('the program', `ended with exit code ${code}: ${this.#errors.trim().slice(0, 400)}`)
    } else if (!this.#isOver) {
      this.#add('the program', `ended with exit code 0 after ${this.#last}, before its work was done`)
    }
  }

  #endIfStuck(): void {
    if (performance.now() - this.#lastHeardAt < (this.#isOver ? LIMIT_MS : STUCK_MS)) return
    this.#program.kill('SIGKILL')
  }

  async #heard(message: FromWaiter): Promise<void> {
    this.#lastHeardAt = performance.now()
    switch (message.kind) {
      case 'hold':
        return await this.#hold(message)
      case 'waiting':
        return await this.#release(message)
      case 'done':
        this.#last = message.what
        return
      case 'would have ended':
        return this.#add(
          message.what,
          'the process would have ended with exit code 0 while the caller waited',
        )
      case 'failed':
        this.#last = message.what
        return this.#add(message.what, message.message)
      case 'holding':
      case 'closed':
        this.#isOver = true
        this.#resources = message.resources
    }
  }

  async #hold({ held, name }: Extract<FromWaiter, { kind: 'hold' }>): Promise<void> {
    try {
      this.#releases.set(name, await holdAs(held, name, this.#locks, this.#library, this.#setup.recordsUrl))
    } catch (error) {
      this.#add(name, `this process could not hold it: ${messageOf(error)}`)
    }
    if (this.#program.connected) this.#program.send({ kind: 'held', name } satisfies ToWaiter)
  }

  async #release({ name, held }: Extract<FromWaiter, { kind: 'waiting' }>): Promise<void> {
    await sleep(SETTLE_MS)
    // A store without a queue shows no waiter, and neither does an idempotency record: there the time has to do.
    if (QUEUED.includes(held) && this.#locks.guarantees.fair) {
      await came(async () => (await this.#locks.inspect(name)).waiters.length > 0, { limitMs: 2_000 })
    }
    const release = this.#releases.get(name)
    this.#releases.delete(name)
    await release?.().catch((error: unknown) => this.#add(name, `release: ${messageOf(error)}`))
  }

  #add(what: string, message: string): void {
    this.#findings.push({ what, message })
  }
}
