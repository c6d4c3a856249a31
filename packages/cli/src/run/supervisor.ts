import { readFileSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { exitCodeOfSignal } from '../exit-codes.js'
import { say } from '../terminal.js'
import type { Alive, ProcessFamily } from './process-family.js'

/** What happens to processes that still run when the command has ended by itself. */
export const BACKGROUND = ['wait', 'stop', 'ignore'] as const
export type Background = (typeof BACKGROUND)[number]

export interface SupervisorOptions {
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs: number
  readonly background: Background
  /** Aborts when the lock is not ours any more. */
  readonly lost: AbortSignal
}

/** SIGHUP means "reload" to some programs and ends all others, so it does not go to what the command has started. */
const FOR_COMMAND: readonly NodeJS.Signals[] = ['SIGHUP', 'SIGUSR1', 'SIGUSR2']
const FOR_ALL: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT']
/** Signals that ask for the end of processes which the command has left behind. */
const ENDING: ReadonlySet<NodeJS.Signals> = new Set(['SIGHUP', 'SIGINT', 'SIGQUIT'])

const POLL_MIN_MS = 20
const POLL_MAX_MS = 250
/** Reading the table of processes takes at most about a twentieth of the time. */
const POLL_COST_FACTOR = 20
const REPORT_AFTER_MS = 1_000
const REPORTED_PIDS_MAX = 10

/** Passes signals on, stops the command when the lock is lost, and waits until none of its processes is left. */
export class Supervisor {
  readonly #family: ProcessFamily | null
  readonly #options: SupervisorOptions
  readonly #passedOn = new Set<NodeJS.Signals>()
  readonly #onLost = (): void => this.#stop()
  readonly #onExit = (): void => this.#family?.signalAll('SIGKILL')
  #state: 'running' | 'ended' | 'over'
  #grace: NodeJS.Timeout | null = null
  #killed = false

  /** Without a family the command was not started. Signals are ignored then, so that the lock is released. */
  constructor(family: ProcessFamily | null, options: SupervisorOptions) {
    this.#family = family
    this.#options = options
    this.#state = family === null ? 'over' : 'running'
    this.#listen()
    // An internal error ends this process at once, and the command must not go on without the lock.
    process.once('exit', this.#onExit)
    if (options.lost.aborted) this.#stop()
    else options.lost.addEventListener('abort', this.#onLost, { once: true })
  }

  /** The command has ended. Resolves when the processes that it has started have ended too. */
  async finish(exitCode: number): Promise<void> {
    if (this.#family === null) return
    this.#family.commandEnded()
    this.#state = 'ended'
    const { background } = this.#options
    const endedBySignal = [...this.#passedOn].some((signal) => exitCode === exitCodeOfSignal(signal))
    const stops = endedBySignal || background === 'stop'
    if (stops && this.#grace === null && hasMembers(this.#family.alive())) this.#stop()
    if (background !== 'ignore' || this.#grace !== null) await this.#allEnded(this.#family)
  }

  /** The handlers of signals stay, because a signal must not prevent the release of the lock. */
  close(): void {
    this.#state = 'over'
    if (this.#grace !== null) clearTimeout(this.#grace)
    process.off('exit', this.#onExit)
    this.#options.lost.removeEventListener('abort', this.#onLost)
  }

  #listen(): void {
    for (const signal of [...FOR_COMMAND, ...FOR_ALL]) process.on(signal, () => this.#passOn(signal))
    process.on('SIGTERM', () => {
      if (this.#grace === null) this.#stop()
      else if (this.#state !== 'over') this.#family?.signalAll('SIGTERM')
    })
    // At a terminal, Ctrl-Z stops and `fg` continues both processes.
    if (this.#family?.sharesOurGroup !== false) return
    // SIGTSTP has no effect on a command without a terminal. This process goes on and renews the lock.
    process.on('SIGTSTP', () => this.#pause('SIGSTOP'))
    process.on('SIGCONT', () => this.#pause('SIGCONT'))
  }

  #pause(signal: NodeJS.Signals): void {
    if (this.#state !== 'over') this.#family?.signalAll(signal)
  }

  #passOn(signal: NodeJS.Signals): void {
    if (this.#family === null) return
    switch (this.#state) {
      case 'running':
        if (ENDING.has(signal)) this.#passedOn.add(signal)
        if (FOR_COMMAND.includes(signal)) this.#family.signalCommand(signal)
        else if (!this.#isSentByKeyboard(signal)) this.#family.signalAll(signal)
        return
      case 'ended':
        if (ENDING.has(signal)) this.#stop()
        return
      case 'over':
        return
    }
  }

  /** The terminal sends Ctrl-C and Ctrl-\ to its whole foreground group, so the command has received it. */
  #isSentByKeyboard(signal: NodeJS.Signals): boolean {
    const isKey = signal === 'SIGINT' || signal === 'SIGQUIT'
    return isKey && this.#family?.sharesOurGroup === true && isInForeground()
  }

  /** SIGTERM first, and SIGKILL when the time is up. */
  #stop(): void {
    if (this.#grace !== null || this.#family === null || this.#state === 'over') return
    const family = this.#family
    family.signalAll('SIGTERM')
    // A stopped process receives SIGTERM only when it continues.
    family.signalAll('SIGCONT')
    this.#grace = setTimeout(() => {
      this.#killed = true
      family.signalAll('SIGKILL')
    }, this.#options.graceMs)
  }

  async #allEnded(family: ProcessFamily): Promise<void> {
    const report = new Report()
    let pollMs = POLL_MIN_MS
    for (;;) {
      const before = performance.now()
      const alive = family.alive()
      if (!hasMembers(alive)) return
      const tookMs = performance.now() - before
      // A process that was started during the first SIGKILL has not received it.
      if (this.#killed) family.signalAll('SIGKILL')
      if (this.#killed) report.after('killed', alive)
      else if (this.#grace === null) report.after('background', alive)
      await sleep(Math.max(pollMs, tookMs * POLL_COST_FACTOR))
      pollMs = Math.min(pollMs * 1.5, POLL_MAX_MS)
    }
  }
}

function hasMembers(alive: Alive): boolean {
  return alive === null || alive.length > 0
}

type Waiting = 'background' | 'killed'

/** Says what the wait is for, once for each reason. A short wait is not worth a message. */
class Report {
  readonly #since = new Map<Waiting, number>()

  after(waiting: Waiting, alive: Alive): void {
    const now = performance.now()
    const since = this.#since.get(waiting)
    if (since === undefined) this.#since.set(waiting, now)
    else if (now - since >= REPORT_AFTER_MS) {
      this.#since.set(waiting, Number.POSITIVE_INFINITY)
      say(TEXTS[waiting](describeAlive(alive)))
    }
  }
}

const TEXTS: Record<Waiting, (processes: string) => string> = {
  background: (processes) =>
    `the command has ended, but left ${processes} running; the lock is kept until the last one ends`,
  killed: (processes) =>
    `waiting for ${processes} to end after SIGKILL; a process can hang in a system call, or belong to another user`,
}

function describeAlive(alive: Alive): string {
  if (alive === null) return 'processes'
  const shown = alive.slice(0, REPORTED_PIDS_MAX).join(', ')
  const more = alive.length > REPORTED_PIDS_MAX ? ', …' : ''
  return `${alive.length} ${alive.length === 1 ? 'process' : 'processes'} (pid ${shown}${more})`
}

/** Linux tells which group the terminal is with; elsewhere a terminal on standard input is a good sign. */
function isInForeground(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8')
    // The fields are counted from behind the program's name, which is in brackets and may contain anything.
    const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return group === foreground
  } catch {
    // There is no such file outside Linux.
    return process.stdin.isTTY
  }
}
