/** The command that `holdfast run` has started, and the processes that it has started. */

import { performance } from 'node:perf_hooks'
import { say } from '../terminal.js'
import { ProcessMemory } from './process-memory.js'
import { type ProcessEntry, type ProcessReader, procReader } from './process-table.js'
import { isMarkedBy, nestedSupervisor, RUN_VARIABLE } from './run-mark.js'

const WATCH_MIN_MS = 20
const WATCH_MAX_MS = 1_000
/** Reading the table of processes takes at most about a hundredth of the time while the command runs. */
const WATCH_COST_FACTOR = 100

/** SIGSTOP also stops a nested `holdfast run`, so that it cannot pass the signal on. */
const PAUSE: ReadonlySet<NodeJS.Signals> = new Set(['SIGSTOP', 'SIGCONT'])

/** Pids of processes that still run. Null: some do, and this system does not say which. */
export type Alive = readonly number[] | null

export interface ProcessFamily {
  /** Whether a Ctrl-C at the terminal reaches the command without the help of `holdfast run`. */
  readonly sharesOurGroup: boolean
  signalCommand(signal: NodeJS.Signals): void
  signalAll(signal: NodeJS.Signals): void
  /** The processes that still run, the command among them. */
  alive(): Alive
  /** The command has ended, and its pid can belong to another process from now on. */
  commandEnded(): void
}

/** Sends signals, and reports each one that cannot be sent once: a SIGKILL is sent again until it has had its effect. */
class Sender {
  readonly #reported = new Set<string>()

  /** Tells whether there is a process to receive it. */
  send(target: number, signal: NodeJS.Signals | 0): boolean {
    try {
      return process.kill(target, signal)
    } catch (error) {
      const { code = 'unknown error' } = error as NodeJS.ErrnoException
      if (code === 'ESRCH') return false
      if (signal !== 0) this.#report(`could not send ${signal} to process ${Math.abs(target)} (${code})`)
      return true
    }
  }

  #report(problem: string): void {
    if (this.#reported.has(problem)) return
    this.#reported.add(problem)
    say(problem)
  }
}

/**
 * One scan can miss a process: pids are listed first and read afterwards, and meanwhile the last process can start
 * another one and end. So only two empty scans in a row mean that none is left.
 */
function scanTwice<T>(scan: () => readonly T[] | null): readonly T[] | null {
  const found = scan()
  return found?.length === 0 ? scan() : found
}

/**
 * A command in a session of its own, which Node.js gives to a detached child. The processes that it starts belong to
 * the session, also those that form a process group of their own, as `timeout` and shells with job control do.
 *
 * The command of a nested `holdfast run` has another session. The nested run is in ours, passes signals on, and ends
 * after its processes. Only when this run kills it, the processes that it supervised are found by their mark.
 *
 * Outside Linux only the first process group of the session can be found.
 */
export class SessionFamily implements ProcessFamily {
  readonly sharesOurGroup = false
  readonly #sender = new Sender()
  readonly #pid: number
  readonly #runId: string
  readonly #reader: ProcessReader
  /** Pids of the session that this run has killed, nested runs among them. */
  readonly #killed = new Set<number>()
  /** The processes of nested runs that this run has killed. */
  readonly #orphans = new ProcessMemory()
  #ended = false

  constructor(pid: number, runId: string, reader = procReader) {
    this.#pid = pid
    this.#runId = runId
    this.#reader = reader
  }

  commandEnded(): void {
    this.#ended = true
  }

  signalCommand(signal: NodeJS.Signals): void {
    if (!this.#ended) this.#sender.send(this.#pid, signal)
  }

  signalAll(signal: NodeJS.Signals): void {
    // A group belongs to one session, and its number is not used again while it has members.
    const groups = new Set(this.#members(signal)?.map(({ group }) => group) ?? [this.#pid])
    for (const group of groups) this.#sender.send(-group, signal)
  }

  alive(): Alive {
    const members = this.#members()
    if (members !== null) return members.map(({ pid }) => pid)
    return this.#sender.send(-this.#pid, 0) ? null : []
  }

  #members(signal?: NodeJS.Signals): readonly ProcessEntry[] | null {
    return scanTwice(() => {
      const table = this.#reader.readTable()
      if (table === null) return null
      const own = table.filter(({ session, isZombie }) => session === this.#pid && !isZombie)
      if (signal === 'SIGKILL') for (const { pid } of own) this.#killed.add(pid)
      const orphans = this.#supervisedBy(this.#killed, table, this.#orphans)
      if (signal === undefined || !PAUSE.has(signal)) return [...own, ...orphans]
      const running = new Set(own.map(({ pid }) => pid))
      return [...own, ...orphans, ...this.#supervisedBy(running, table, new ProcessMemory())]
    })
  }

  /** The processes of the nested runs with these pids, in any session but ours. */
  #supervisedBy(
    supervisors: ReadonlySet<number>,
    table: readonly ProcessEntry[],
    memory: ProcessMemory,
  ): readonly ProcessEntry[] {
    if (supervisors.size === 0) return []
    // Environments of older processes are not read: they cannot have the mark.
    const since = table.find(({ pid }) => pid === process.pid)?.startTime ?? 0
    const others = table.filter(
      ({ session, startTime, isZombie }) => session !== this.#pid && startTime >= since && !isZombie,
    )
    return memory.membersOf(others, ({ pid }) => {
      const supervisor = nestedSupervisor(this.#reader.readVariable(pid, RUN_VARIABLE), this.#runId)
      return supervisor !== null && supervisors.has(supervisor)
    })
  }
}

/**
 * A command in the process group of `holdfast run`, because it shares the terminal. Other programs can be in that group
 * too, such as the reader of a pipe. The processes of the command are its descendants in the same session, and those
 * that have its mark in their environment: a process whose parent has ended is not a descendant any more. The table of
 * processes is read while the command runs, so that descendants without a readable mark are known by then.
 * Outside Linux only the command itself can be found.
 */
export class TerminalFamily implements ProcessFamily {
  readonly sharesOurGroup = true
  readonly #sender = new Sender()
  readonly #pid: number
  readonly #runId: string
  readonly #reader: ProcessReader
  readonly #memory = new ProcessMemory()
  #watch: NodeJS.Timeout
  #ended = false

  constructor(pid: number, runId: string, reader = procReader) {
    this.#pid = pid
    this.#runId = runId
    this.#reader = reader
    this.#watch = this.#watchAfter(WATCH_MIN_MS)
  }

  commandEnded(): void {
    this.#ended = true
    clearTimeout(this.#watch)
  }

  signalCommand(signal: NodeJS.Signals): void {
    if (!this.#ended) this.#sender.send(this.#pid, signal)
  }

  signalAll(signal: NodeJS.Signals): void {
    const members = this.#members()
    if (members === null) this.signalCommand(signal)
    else for (const { pid } of members) this.#sender.send(pid, signal)
  }

  alive(): Alive {
    return this.#members()?.map(({ pid }) => pid) ?? (this.#ended ? [] : [this.#pid])
  }

  #watchAfter(delayMs: number): NodeJS.Timeout {
    const timer = setTimeout(() => {
      const before = performance.now()
      // Where there is no table, there will not be one later.
      if (this.#members() === null) return
      const costMs = (performance.now() - before) * WATCH_COST_FACTOR
      this.#watch = this.#watchAfter(Math.max(Math.min(delayMs * 1.5, WATCH_MAX_MS), costMs))
    }, delayMs)
    return timer.unref()
  }

  #members(): readonly ProcessEntry[] | null {
    return scanTwice(() => {
      const table = this.#reader.readTable()
      const own = table?.find(({ pid }) => pid === process.pid)
      if (table === null || own === undefined) return null
      const others = table.filter(
        ({ pid, session, isZombie }) => session === own.session && pid !== own.pid && !isZombie,
      )
      return this.#memory.membersOf(others, ({ pid }) => this.#isMarked(pid))
    })
  }

  #isMarked(pid: number): boolean {
    if (!this.#ended && pid === this.#pid) return true
    return isMarkedBy(this.#reader.readVariable(pid, RUN_VARIABLE), this.#runId)
  }
}
