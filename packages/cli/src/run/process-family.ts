/** The command that `holdfast run` has started, and the processes that it has started. */

import { say } from '../terminal.js'
import { hasVariable, type ProcessEntry, readProcessTable } from './process-table.js'

/** Marks the processes of one `holdfast run`: the ids of the runs around it and its own, with dots between them. */
export const RUN_VARIABLE = 'HOLDFAST_RUN'

/** Nested runs add their ids behind those around them. Older ids are dropped, so that the text stays short. */
const NESTED_RUNS_MAX = 16

export function runVariable(outer: string | undefined, runId: string): string {
  const around = outer === undefined || outer === '' ? [] : outer.split('.')
  return [...around.slice(1 - NESTED_RUNS_MAX), runId].join('.')
}

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
 * A command in a session of its own, which Node.js gives to a detached child. The processes that it starts belong to
 * the session, also those that form a process group of their own, as `timeout` and shells with job control do.
 * Outside Linux only the first process group of the session can be found.
 */
export class SessionFamily implements ProcessFamily {
  readonly sharesOurGroup = false
  readonly #sender = new Sender()
  readonly #pid: number
  #ended = false

  constructor(pid: number) {
    this.#pid = pid
  }

  commandEnded(): void {
    this.#ended = true
  }

  signalCommand(signal: NodeJS.Signals): void {
    if (!this.#ended) this.#sender.send(this.#pid, signal)
  }

  signalAll(signal: NodeJS.Signals): void {
    // A group belongs to one session, and its number is not used again while it has members.
    const groups = new Set(this.#members()?.map(({ group }) => group) ?? [this.#pid])
    for (const group of groups) this.#sender.send(-group, signal)
  }

  alive(): Alive {
    const members = this.#members()
    if (members !== null) return members.map(({ pid }) => pid)
    return this.#sender.send(-this.#pid, 0) ? null : []
  }

  #members(): readonly ProcessEntry[] | null {
    const table = readProcessTable()
    return table?.filter(({ session, isZombie }) => session === this.#pid && !isZombie) ?? null
  }
}

/**
 * A command in the process group of `holdfast run`, because it shares the terminal. Other programs can be in that group
 * too, such as the reader of a pipe. The processes of the command are its descendants in the same session, and those
 * that have its mark in their environment: a process whose parent has ended is not a descendant any more.
 * Outside Linux only the command itself can be found.
 */
export class TerminalFamily implements ProcessFamily {
  readonly sharesOurGroup = true
  readonly #sender = new Sender()
  readonly #pid: number
  readonly #runId: string
  #ended = false

  constructor(pid: number, runId: string) {
    this.#pid = pid
    this.#runId = runId
  }

  commandEnded(): void {
    this.#ended = true
  }

  signalCommand(signal: NodeJS.Signals): void {
    if (!this.#ended) this.#sender.send(this.#pid, signal)
  }

  signalAll(signal: NodeJS.Signals): void {
    const members = this.#members()
    if (members === null) this.signalCommand(signal)
    else for (const pid of members) this.#sender.send(pid, signal)
  }

  alive(): Alive {
    return this.#members() ?? (this.#ended ? [] : [this.#pid])
  }

  #members(): readonly number[] | null {
    const table = readProcessTable()
    const own = table?.find(({ pid }) => pid === process.pid)
    if (table === null || own === undefined) return null
    const others = table.filter(
      ({ pid, session, isZombie }) => session === own.session && pid !== own.pid && !isZombie,
    )
    const members = new Set(others.filter((entry) => this.#isKnown(entry)).map(({ pid }) => pid))
    for (const member of members) {
      for (const { pid, parent } of others) if (parent === member) members.add(pid)
    }
    return [...members]
  }

  #isKnown({ pid }: ProcessEntry): boolean {
    if (!this.#ended && pid === this.#pid) return true
    return hasVariable(pid, (variable) => {
      const [name, ids = ''] = variable.split('=', 2)
      return name === RUN_VARIABLE && ids.split('.').includes(this.#runId)
    })
  }
}
