import { basename } from 'node:path'
import { Command, Option } from 'commander'
import {
  type AcquireOptions,
  type Hold,
  LockLostError,
  type LockLostReason,
  type Locks,
  type ResourceView,
} from 'holdfast'
import { readDuration, readWait, readWholeNumber, urlOption } from '../arguments.js'
import type { Cli } from '../cli.js'
import { EXIT, EXIT_CODES_HELP } from '../exit-codes.js'
import { UsageError } from '../failure.js'
import { formatDuration } from '../format/duration.js'
import { escapeText } from '../format/escape.js'
import { count, describeOwner, quoteName } from '../format/views.js'
import { pause } from '../interruption.js'
import { superviseCommand } from '../run/command.js'
import { BACKGROUND, type Background } from '../run/supervisor.js'
import { withLocks } from '../store.js'
import { say } from '../terminal.js'

interface RunOptions {
  readonly url?: string
  /** Infinity: as long as it takes. */
  readonly wait: number
  readonly ttl: number
  readonly grace: number
  readonly background: Background
  readonly shared?: true
  readonly write?: true
  readonly limit?: number
  readonly note?: string
  readonly detectDeadlocks?: true
}

/** Quick waits are not worth a word. */
const ANNOUNCE_AFTER_MS = 1_000
const ANNOUNCE_EVERY_MS = 2_000

const LIMIT_MAX = 1_000_000

const EXAMPLES = `
Examples:
  holdfast run nightly-backup --wait 0s -- ./backup.sh
  holdfast run deploy:shop --wait 10m --note "release 4.2" -- ./deploy.sh
  holdfast run thumbnails --limit 4 --wait forever -- convert in.png out.jpg
  holdfast run catalogue --shared -- ./export.sh     (many at once, but none beside a --write)
  holdfast run catalogue --write -- ./reindex.sh

The command finds the name in HOLDFAST_NAME and the fence, a number that grows with every
holder, in HOLDFAST_FENCE; HOLDFAST_FLOW tells a holdfast inside it where it belongs. No shell is involved; use "sh -c '...'" where you want one.
On SIGTERM, and when the lock is lost, the processes of the command get SIGTERM, and SIGKILL after
--grace. The lock is released when the last of them has ended. Which processes count depends on the
system and the terminal; outside Linux, at a terminal, only the command itself counts (docs/cli.md).`

export function runCommand(cli: Cli): Command {
  const kinds = ['shared', 'write', 'limit']
  const others = (name: string): string[] => kinds.filter((kind) => kind !== name)
  return new Command('run')
    .summary('run a command while holding a lock')
    .description('Take a lock, run a command, release the lock. Exits with what the command exits with.')
    .usage('[options] NAME -- COMMAND...')
    .argument('<name>', 'the name of the lock')
    .addOption(urlOption())
    .addOption(
      new Option('-w, --wait <duration>', 'how long to wait for the lock; 0s tries once, or "forever"')
        .argParser(readWait)
        .default(30_000, '30s'),
    )
    .addOption(
      new Option('--ttl <duration>', 'how soon the lock frees itself if this process dies')
        .argParser(readDuration)
        .default(30_000, '30s'),
    )
    .addOption(new Option('--shared', 'the read side of a read-write lock').conflicts(others('shared')))
    .addOption(new Option('--write', 'the write side of a read-write lock').conflicts(others('write')))
    .addOption(
      new Option('--limit <n>', 'a semaphore: up to n at once')
        .argParser(readWholeNumber(1, LIMIT_MAX))
        .conflicts(others('limit')),
    )
    .option('--note <text>', "text for people who look (default: the command's name)")
    .addOption(
      new Option('--grace <duration>', 'between SIGTERM and SIGKILL when the command is to stop')
        .argParser(readDuration)
        .default(10_000, '10s'),
    )
    .addOption(
      new Option(
        '--background <mode>',
        'processes that still run when the command has ended: wait for them, stop them, or ignore them',
      )
        .choices(BACKGROUND)
        .default('wait'),
    )
    .option('--detect-deadlocks', 'give up if it would wait for ever, for others that wait for it')
    .addHelpText('after', `${EXAMPLES}\n${EXIT_CODES_HELP}`)
    .action(async (name: string, options: RunOptions) => {
      cli.exitCode = await run(cli, name, options)
    })
}

async function run(cli: Cli, name: string, options: RunOptions): Promise<number> {
  const [command, ...args] = cli.childCommand ?? []
  if (command === undefined || command === '') {
    throw new UsageError('there is no command to run; put it behind "--": holdfast run NAME -- COMMAND...')
  }
  const { signal } = cli.interruption
  const inFlow = async (locks: Locks, flow: string): Promise<number> => {
    const hold = await acquire(locks, name, options, noteFor(command, options.note), signal)
    const exitCode = await runUnder(cli, locks, hold, {
      command,
      args,
      graceMs: options.grace,
      background: options.background,
      flow,
    })
    const outcome = await hold.release()
    if (outcome !== 'gone' || exitCode === EXIT.lockLost) return exitCode
    say(`the lock ${quoteName(name)} was gone when the command ended, so it may have run unprotected`)
    return EXIT.lockLost
  }
  return await withLocks(options.url, signal, (locks) => locks.flow((flow) => inFlow(locks, flow)), {
    deadlocks: options.detectDeadlocks ? 'detect' : 'show',
  })
}

/** Arguments can carry secrets, so the default note is the command's name only. */
function noteFor(command: string, note: string | undefined): string {
  return note ?? escapeText(basename(command)).slice(0, 200)
}

async function acquire(
  locks: Locks,
  name: string,
  options: RunOptions,
  note: string,
  signal: AbortSignal,
): Promise<Hold> {
  const wish: AcquireOptions = {
    ttlMs: options.ttl,
    note,
    signal,
    ...(Number.isFinite(options.wait) ? { waitMs: options.wait } : {}),
  }
  const over = new AbortController()
  const announcing = process.stderr.isTTY
    ? announceWait(locks, name, AbortSignal.any([signal, over.signal]))
    : Promise.resolve()
  try {
    if (options.limit !== undefined) return await locks.semaphore(name, options.limit).acquire(wish)
    if (options.shared) return await locks.readWrite(name).read().acquire(wish)
    if (options.write) return await locks.readWrite(name).write().acquire(wish)
    return await locks.mutex(name).acquire(wish)
  } finally {
    over.abort()
    await announcing
  }
}

/** Tells a person at a terminal what the wait is for, and again when that changes. */
async function announceWait(locks: Locks, name: string, over: AbortSignal): Promise<void> {
  let said = ''
  await pause(ANNOUNCE_AFTER_MS, over)
  while (!over.aborted) {
    try {
      const view = await locks.inspect(name)
      const key = view.holders.map((holder) => holder.ref).join()
      if (!over.aborted && key !== said && key !== '') {
        say(describeWait(view))
        said = key
      }
    } catch {
      // The wait itself goes on and reports what is wrong with the store; this is only a courtesy.
      return
    }
    await pause(ANNOUNCE_EVERY_MS, over)
  }
}

function describeWait({ resource, holders, waiters }: ResourceView): string {
  const [first, ...more] = holders
  if (first === undefined) return `waiting for ${quoteName(resource)}`
  const others = more.length === 0 ? '' : ` and ${count(more.length, 'other')}`
  const age = formatDuration(first.ageMs)
  const held = `held by ${describeOwner(first)}${others} for ${age}`
  return `waiting for ${quoteName(resource)}, ${held}; ${count(waiters.length, 'waiter')} in line`
}

interface Work {
  readonly command: string
  readonly args: readonly string[]
  readonly graceMs: number
  readonly background: Background
  /** What belongs to it; empty where the store does not show it. */
  readonly flow: string
}

async function runUnder(cli: Cli, locks: Locks, hold: Hold, work: Work): Promise<number> {
  const { signal: lost } = hold
  cli.interruption.signal.throwIfAborted()
  hold.assertHeld()
  const onLost = (): void => say(`${lossText(hold.resource, lost.reason)}; stopping the command`)
  lost.addEventListener('abort', onLost, { once: true })
  const running = superviseCommand({ ...work, env: environmentFor(locks, hold, work.flow), lost })
  // The command runs now, and signals are for it.
  cli.interruption.handOver()
  const end = await running
  lost.removeEventListener('abort', onLost)
  if (end.kind === 'not-started') say(`cannot run ${quoteName(work.command)}: ${end.problem}`)
  return lost.aborted || lostByNow(hold) ? EXIT.lockLost : end.exitCode
}

const LOST_BECAUSE: Record<LockLostReason, string> = {
  expired: 'its lease could not be renewed in time',
  evicted: 'somebody broke it, or the store was reset',
  'session-ended': 'the session with the store ended',
  'connection-closed': 'the connection to the store closed',
  'transaction-ended': 'the transaction that kept it ended',
  'max-hold': 'it was held for too long',
  closed: 'the client was closed',
}

function lossText(name: string, error: unknown): string {
  const why = error instanceof LockLostError ? ` (${error.reason}): ${LOST_BECAUSE[error.reason]}` : ''
  return `the lock ${quoteName(name)} was lost${why}`
}

/** The clock knows of a loss before the timer that would have told of it. */
function lostByNow(hold: Hold): boolean {
  try {
    hold.assertHeld()
    return false
  } catch (error) {
    if (!(error instanceof LockLostError)) return false
    say(`${lossText(hold.resource, error)}; the command has just ended`)
    return true
  }
}

function environmentFor(locks: Locks, hold: Hold, flow: string): NodeJS.ProcessEnv {
  // An outer `holdfast run` has set these for its own lock; its fence must not pass for ours.
  const { HOLDFAST_NAME: _name, HOLDFAST_FENCE: _fence, ...inherited } = process.env
  const fence = locks.guarantees.fencing === 'none' ? {} : { HOLDFAST_FENCE: String(hold.fence) }
  // Without a flow of its own it is still inside the one that it was started in.
  const inside = flow === '' ? {} : { HOLDFAST_FLOW: flow }
  return { ...inherited, HOLDFAST_NAME: hold.resource, ...fence, ...inside }
}
