import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command, Option } from 'commander'
import type { Locks, ResourceView } from 'holdfast'
import { readWholeNumber } from '../arguments.js'
import type { Cli } from '../cli.js'
import { type Finding, findingsOf } from '../demo/findings.js'
import { counterFile, journalFile, LOCK_NAME } from '../demo/protocol.js'
import { Stage } from '../demo/stage.js'
import { findingLines, liveLines, painter, plainEvent, plainStatus } from '../demo/view.js'
import { EXIT } from '../exit-codes.js'
import { pause } from '../interruption.js'
import { withLocks } from '../store.js'
import { canRedraw, LiveBlock, mayColour, printLines } from '../terminal.js'

interface DemoOptions {
  readonly workers: number
  readonly seconds: number
}

const REDRAW_MS = 100
const STATUS_MS = 1_000

const EXPLANATION = `
Several processes contend for one lock in an SQLite file of their own, in a temporary folder.
One of them is killed with kill -9 while it holds the lock; when its lease ends, the next in
line takes over with a higher fence. In the end it says what was seen.

Exit codes:
  0    everything was seen as it should be
  1    something was not
  130  interrupted (128+n)`

export function demoCommand(cli: Cli): Command {
  return new Command('demo')
    .summary('watch a lock survive the death of its holder')
    .description('Show, on this machine and with nothing to set up, what a lock of holdfast does.')
    .addOption(
      new Option('--workers <n>', 'how many processes contend').argParser(readWholeNumber(2, 20)).default(5),
    )
    .addOption(
      new Option('--seconds <n>', 'about how long it takes').argParser(readWholeNumber(4, 600)).default(12),
    )
    .addHelpText('after', EXPLANATION)
    .action(async (options: DemoOptions) => {
      cli.exitCode = await demo(cli, options)
    })
}

async function demo(cli: Cli, options: DemoOptions): Promise<number> {
  const { signal } = cli.interruption
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-demo-'))
  try {
    await writeFile(counterFile(folder), '0')
    await writeFile(journalFile(folder), '')
    // A percent sign in the path would otherwise be taken for an escape.
    const url = `sqlite:${join(folder, 'locks.db').replaceAll('%', '%25')}`
    const findings = await withLocks(url, signal, (locks) =>
      perform(locks, { ...options, url, folder }, signal),
    )
    signal.throwIfAborted()
    printLines(['', ...findingLines(findings, painter(mayColour()))])
    return findings.every(({ ok }) => ok) ? EXIT.ok : EXIT.nothing
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  }
}

interface Performance extends DemoOptions {
  readonly url: string
  readonly folder: string
}

async function perform(locks: Locks, setup: Performance, signal: AbortSignal): Promise<readonly Finding[]> {
  const redraws = canRedraw()
  const stage = new Stage({ ...setup, totalMs: setup.seconds * 1_000 }, (event) => {
    if (!redraws) printLines([plainEvent(event)])
  })
  const over = new AbortController()
  const showing = (redraws ? showLive : showPlain)(locks, stage, AbortSignal.any([signal, over.signal]))
  try {
    await stage.play(signal)
  } finally {
    await stage.end()
    over.abort()
    await showing
  }
  return findingsOf(stage.seen())
}

async function showLive(locks: Locks, stage: Stage, over: AbortSignal): Promise<void> {
  const block = new LiveBlock()
  const paint = painter(mayColour())
  let view: ResourceView | null = null
  while (!over.aborted) {
    view = await look(locks, view)
    block.draw(liveLines(stage.snapshot(view), paint))
    await pause(REDRAW_MS, over)
  }
  // The last picture shows how it ended, so that it agrees with what is said below it.
  block.draw(liveLines(stage.snapshot(await look(locks, view)), paint))
  block.end()
}

async function showPlain(locks: Locks, stage: Stage, over: AbortSignal): Promise<void> {
  let view: ResourceView | null = null
  for (;;) {
    await pause(STATUS_MS, over)
    if (over.aborted) return
    view = await look(locks, view)
    printLines([plainStatus(stage.snapshot(view))])
  }
}

/** A store that is busy for a moment leaves the picture as it was. */
async function look(locks: Locks, last: ResourceView | null): Promise<ResourceView | null> {
  try {
    return await locks.inspect(LOCK_NAME)
  } catch {
    // What is wrong with the store, the workers notice and report.
    return last
  }
}
