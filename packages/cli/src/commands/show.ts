import { Command, Option } from 'commander'
import type { Deadlock, Locks, ResourceView } from 'holdfast'
import { readDuration, urlOption } from '../arguments.js'
import type { Cli } from '../cli.js'
import { deadlocksAround } from '../deadlocks.js'
import { EXIT } from '../exit-codes.js'
import { UsageError } from '../failure.js'
import { formatDuration } from '../format/duration.js'
import { deadlockLines, quoteName, resourceLines, standingsKey, toJson } from '../format/views.js'
import { pause } from '../interruption.js'
import { withLocks } from '../store.js'
import { canRedraw, LiveBlock, outputWidth, printLines } from '../terminal.js'

interface ShowOptions {
  readonly url?: string
  readonly json?: true
  /** true where nothing stood behind `--watch`, and a text where that was no interval. */
  readonly watch?: number | string | true
}

/** What is to be shown, and how often; null for once. */
interface Look {
  readonly name: string
  readonly everyMs: number | null
  readonly json: boolean
}

const WATCH_EVERY_MS = 1_000

/** Looking costs the store something, so it is not asked without a pause. */
const WATCH_EVERY_MS_MIN = 100

const EXAMPLES = `
Examples:
  holdfast show deploy:shop
  holdfast show --watch deploy:shop
  holdfast show deploy:shop --watch 250ms --json     (one line of JSON for each change)`

export function showCommand(cli: Cli): Command {
  return new Command('show')
    .summary('show who holds a lock and who waits for it')
    .description('Show the holders of a lock and the line behind them, in order.')
    .argument('[name]', 'the name of the lock')
    .usage('[options] <name>')
    .addOption(urlOption())
    .option('--json', 'print an object; fences are strings')
    .addOption(
      new Option(
        '--watch [interval]',
        'go on until interrupted; in a pipe, print only what changed (default interval: 1s)',
      ).argParser(readIntervalOrName),
    )
    .addHelpText('after', EXAMPLES)
    .action(async (name: string | undefined, options: ShowOptions, command: Command) => {
      cli.exitCode = await show(cli, options.url, lookOf(name, options, command))
    })
}

/** What looks like a time is one, even if it is wrong: whoever forgets the unit does not mean a lock of that name. */
function readIntervalOrName(text: string): number | string {
  return /^\d+(\.\d+)?(ms|s|m|h|d)?$/.test(text.trim()) ? readDuration(text) : text
}

/** The parser takes the word behind `--watch` for its interval, so only here can be told whether the name is missing. */
function lookOf(name: string | undefined, { watch, json }: ShowOptions, command: Command): Look {
  const behind = typeof watch === 'string' ? watch : undefined
  if (name !== undefined && behind !== undefined) {
    throw new UsageError(
      `--watch takes a duration such as 500ms, 30s, 5m or 1h, and not ${quoteName(behind)}`,
    )
  }
  const shown = name ?? behind
  if (shown === undefined) command.error("error: missing required argument 'name'")
  const wantedMs = typeof watch === 'number' ? watch : WATCH_EVERY_MS
  return {
    name: shown,
    everyMs: watch === undefined ? null : Math.max(wantedMs, WATCH_EVERY_MS_MIN),
    json: json === true,
  }
}

async function show(cli: Cli, url: string | undefined, { name, everyMs, json }: Look): Promise<number> {
  const { signal } = cli.interruption
  return await withLocks(url, signal, async (locks) => {
    if (everyMs !== null) {
      const draw = json || !canRedraw() ? printChanges(json) : redraw(everyMs)
      return await watch(locks, name, everyMs, draw, signal)
    }
    const view = await look(locks, name, signal)
    printLines(json ? [toJson(view, 2)] : viewLines(view, outputWidth()))
    return EXIT.ok
  })
}

/** A resource, with the deadlocks that it is part of. */
interface Sight extends ResourceView {
  readonly deadlocks: readonly Deadlock[]
}

async function look(locks: Locks, name: string, signal: AbortSignal): Promise<Sight> {
  const view = await locks.inspect(name)
  return { ...view, deadlocks: await deadlocksAround(locks, [view], signal) }
}

function viewLines(view: Sight, maxWidth?: number): string[] {
  const circles = deadlockLines(view.deadlocks)
  return [...resourceLines(view, maxWidth), ...(circles.length === 0 ? [] : ['', ...circles])]
}

async function watch(
  locks: Locks,
  name: string,
  everyMs: number,
  draw: Drawing,
  signal: AbortSignal,
): Promise<number> {
  try {
    while (!signal.aborted) {
      draw.view(await look(locks, name, signal))
      await pause(everyMs, signal)
    }
  } finally {
    draw.end()
  }
  throw signal.reason
}

interface Drawing {
  view(view: Sight): void
  end(): void
}

function redraw(everyMs: number): Drawing {
  const block = new LiveBlock()
  const hint = `every ${formatDuration(everyMs)}, Ctrl-C to end`
  return {
    view: (view) => block.draw([...viewLines(view, outputWidth()), '', hint]),
    end: () => block.end(),
  }
}

/** Ages change all the time; a reader of a log wants to know who came and went. */
function printChanges(json: boolean): Drawing {
  let last: string | null = null
  return {
    view(view) {
      const circles = view.deadlocks.map(({ cycle }) => cycle.map(({ waiter }) => waiter.ref))
      const key = `${standingsKey(view)} ${JSON.stringify(circles)}`
      if (key === last) return
      const at = new Date().toISOString()
      if (json) printLines([toJson({ at, ...view })])
      else printLines([...(last === null ? [] : ['']), at, ...viewLines(view)])
      last = key
    },
    end() {
      last = null
    },
  }
}
