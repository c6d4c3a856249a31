import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { EXIT, exitCodeOfSignal } from '../exit-codes.js'
import { SessionFamily, TerminalFamily } from './process-family.js'
import { newRunId, RUN_VARIABLE, runVariable } from './run-mark.js'
import { type Background, Supervisor } from './supervisor.js'

export interface CommandRequest {
  readonly command: string
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs: number
  /** What happens to processes that still run when the command has ended by itself. */
  readonly background: Background
  /** Aborts when the lock is not ours any more. */
  readonly lost: AbortSignal
}

export type CommandEnd =
  | { readonly kind: 'ended'; readonly exitCode: number }
  | { readonly kind: 'not-started'; readonly exitCode: number; readonly problem: string }

/**
 * Runs the command. The promise resolves when the command and the processes that it has started have ended, so that
 * the lock can be released. Without a controlling terminal the command gets a session of its own. With one it stays
 * in our process group: a group in the background could not read the terminal.
 */
export async function superviseCommand(request: CommandRequest): Promise<CommandEnd> {
  const ownSession = process.platform !== 'win32' && !hasControllingTerminal()
  const runId = newRunId()
  const child = spawn(request.command, [...request.args], {
    stdio: 'inherit',
    env: { ...request.env, [RUN_VARIABLE]: runVariable(process.env[RUN_VARIABLE], runId) },
    detached: ownSession,
  })
  const ended = whenEnded(child)
  const family =
    child.pid === undefined
      ? null
      : ownSession
        ? new SessionFamily(child.pid, runId)
        : new TerminalFamily(child.pid, runId)
  const supervisor = new Supervisor(family, request)
  try {
    const end = await ended
    await supervisor.finish(end.exitCode)
    return end
  } finally {
    supervisor.close()
  }
}

function whenEnded(child: ChildProcess): Promise<CommandEnd> {
  return new Promise((resolve) => {
    child.on('error', (error: NodeJS.ErrnoException) => {
      // Later errors of a running child are about signals that did not reach it, not about its end.
      if (child.pid === undefined) resolve(notStarted(error))
    })
    child.once('exit', (code, signal) => {
      const exitCode = signal === null ? (code ?? EXIT.internal) : exitCodeOfSignal(signal)
      resolve({ kind: 'ended', exitCode })
    })
  })
}

function notStarted(error: NodeJS.ErrnoException): CommandEnd {
  switch (error.code) {
    case 'ENOENT':
      return { kind: 'not-started', exitCode: EXIT.notFound, problem: 'command not found' }
    case 'EACCES':
    case 'EPERM':
      return { kind: 'not-started', exitCode: EXIT.cannotRun, problem: 'permission denied' }
    case undefined:
    default:
      return { kind: 'not-started', exitCode: EXIT.cannotRun, problem: error.code ?? error.message }
  }
}

function hasControllingTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r+'))
    return true
  } catch {
    // ENXIO: there is none, as under cron, systemd or a build server.
    return false
  }
}
