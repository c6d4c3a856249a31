import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { EXIT, exitCodeOfSignal } from './exit-codes.js'
import { say } from './terminal.js'

export interface ChildRequest {
  readonly command: string
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
  /** Between the polite request to stop and the end of it. */
  readonly graceMs: number
  /** Aborts when the lock is not ours any more. */
  readonly lost: AbortSignal
}

export type ChildEnd =
  | { readonly kind: 'ended'; readonly exitCode: number }
  | { readonly kind: 'not-started'; readonly exitCode: number; readonly problem: string }

/** Asked of the child and of everything it started. */
const FOR_ALL: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT', 'SIGTERM']

/** Each program gives these a meaning of its own, and one that knows none dies: only the child gets them. */
const FOR_CHILD: readonly NodeJS.Signals[] = ['SIGHUP', 'SIGUSR1', 'SIGUSR2']

const GROUP_POLL_MS = 50

/**
 * Runs the command until it ends. Without a controlling terminal it gets a process group of its own, so that
 * all it started can be stopped with it. With one it stays in ours: a group in the background could not read
 * the terminal.
 */
export async function superviseChild(request: ChildRequest): Promise<ChildEnd> {
  const ownGroup = process.platform !== 'win32' && !hasControllingTerminal()
  const child = spawn(request.command, [...request.args], {
    stdio: 'inherit',
    env: request.env,
    detached: ownGroup,
  })
  const ended = whenEnded(child)
  if (child.pid === undefined) return await ended
  const family = new Family(child, child.pid, ownGroup)
  forwardSignals(family)
  const stopper = new Stopper(family, request.graceMs)
  const onLost = (): void => stopper.begin()
  if (request.lost.aborted) onLost()
  else request.lost.addEventListener('abort', onLost, { once: true })
  const end = await ended
  request.lost.removeEventListener('abort', onLost)
  await stopper.finish()
  return end
}

function whenEnded(child: ChildProcess): Promise<ChildEnd> {
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

function notStarted(error: NodeJS.ErrnoException): ChildEnd {
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

/** The child, and where it has a group of its own, all that it started. */
class Family {
  readonly #child: ChildProcess
  readonly #pid: number
  readonly ownGroup: boolean

  constructor(child: ChildProcess, pid: number, ownGroup: boolean) {
    this.#child = child
    this.#pid = pid
    this.ownGroup = ownGroup
  }

  get childEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  signalChild(signal: NodeJS.Signals): void {
    // The number of a process that ended can belong to another one already.
    if (!this.childEnded) this.#send(this.#pid, signal)
  }

  signalAll(signal: NodeJS.Signals): void {
    if (this.ownGroup) this.#send(-this.#pid, signal)
    else this.signalChild(signal)
  }

  /** Whether anything of the group is left. A group keeps its number for as long as it has members. */
  get groupLives(): boolean {
    return this.ownGroup && this.#send(-this.#pid, 0)
  }

  #send(target: number, signal: NodeJS.Signals | 0): boolean {
    try {
      return process.kill(target, signal)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      // There is nobody left to tell, which is what a signal wants to bring about.
      if (code === 'ESRCH') return false
      if (signal !== 0) say(`could not send ${signal} to the command (${code ?? 'unknown error'})`)
      return true
    }
  }
}

/** The handlers stay after the child's end, because a signal must not keep the lock from being released. */
function forwardSignals(family: Family): void {
  for (const signal of FOR_CHILD) process.on(signal, () => family.signalChild(signal))
  for (const signal of FOR_ALL) {
    process.on(signal, () => {
      if (!family.childEnded && !sentByKeyboard(signal, family)) family.signalAll(signal)
    })
  }
}

/** The terminal sends Ctrl-C and Ctrl-\ to its whole foreground group, so a child in it has heard of it. */
function sentByKeyboard(signal: NodeJS.Signals, family: Family): boolean {
  return !family.ownGroup && (signal === 'SIGINT' || signal === 'SIGQUIT') && inForeground()
}

/** SIGTERM first; SIGKILL when the time is up. */
class Stopper {
  readonly #family: Family
  readonly #graceMs: number
  #timer: NodeJS.Timeout | null = null
  #killed = false

  constructor(family: Family, graceMs: number) {
    this.#family = family
    this.#graceMs = graceMs
  }

  begin(): void {
    if (this.#timer !== null) return
    this.#family.signalAll('SIGTERM')
    // A stopped process hears SIGTERM only once it goes on.
    this.#family.signalAll('SIGCONT')
    this.#timer = setTimeout(() => {
      this.#killed = true
      this.#family.signalAll('SIGKILL')
    }, this.#graceMs)
  }

  /** The child has ended; what it left behind in its group gets the rest of the time to end too. */
  async finish(): Promise<void> {
    if (this.#timer === null) return
    while (!this.#killed && this.#family.groupLives) {
      await new Promise((resolve) => {
        setTimeout(resolve, GROUP_POLL_MS)
      })
    }
    clearTimeout(this.#timer)
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

/** Linux tells which group the terminal is with; elsewhere a terminal on standard input is a good sign. */
function inForeground(): boolean {
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
