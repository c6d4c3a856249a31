import { Command, Option } from 'commander'
import type { Locks, ResourceView } from 'holdfast'
import { readDuration, urlOption } from '../arguments.js'
import type { Cli } from '../cli.js'
import { EXIT } from '../exit-codes.js'
import { formatDuration } from '../format/duration.js'
import { resourceLines, standingsKey, toJson } from '../format/views.js'
import { pause } from '../interruption.js'
import { withLocks } from '../store.js'
import { canRedraw, LiveBlock, outputWidth, printLines } from '../terminal.js'

interface ShowOptions {
  readonly url?: string
  readonly json?: true
  /** true where `--watch` came without an interval. */
  readonly watch?: number | true
}

const WATCH_EVERY_MS = 1_000

/** Looking costs the store something, so it is not asked without a pause. */
const WATCH_EVERY_MS_MIN = 100

const EXAMPLES = `
Examples:
  holdfast show deploy:shop
  holdfast show deploy:shop --watch
  holdfast show deploy:shop --watch 250ms --json     (one line of JSON for each change)`

export function showCommand(cli: Cli): Command {
  return new Command('show')
    .summary('show who holds a lock and who waits for it')
    .description('Show the holders of a lock and the line behind them, in order.')
    .argument('<name>', 'the name of the lock')
    .addOption(urlOption())
    .option('--json', 'print an object; fences are strings')
    .addOption(
      new Option(
        '--watch [interval]',
        'go on until interrupted; in a pipe, print only what changed (default interval: 1s)',
      ).argParser(readDuration),
    )
    .addHelpText('after', EXAMPLES)
    .action(async (name: string, options: ShowOptions) => {
      cli.exitCode = await show(cli, name, options)
    })
}

async function show(cli: Cli, name: string, options: ShowOptions): Promise<number> {
  const { signal } = cli.interruption
  return await withLocks(options.url, signal, async (locks) => {
    if (options.watch !== undefined) return await watch(locks, name, options, signal)
    const view = await locks.inspect(name)
    printLines(options.json ? [toJson(view, 2)] : resourceLines(view, outputWidth()))
    return EXIT.ok
  })
}

async function watch(locks: Locks, name: string, options: ShowOptions, signal: AbortSignal): Promise<number> {
  const wanted = options.watch === true || options.watch === undefined ? WATCH_EVERY_MS : options.watch
  const everyMs = Math.max(wanted, WATCH_EVERY_MS_MIN)
  const draw = options.json || !canRedraw() ? printChanges(options.json === true) : redraw(everyMs)
  try {
    while (!signal.aborted) {
      draw.view(await locks.inspect(name))
      await pause(everyMs, signal)
    }
  } finally {
    draw.end()
  }
  throw signal.reason
}

interface Drawing {
  view(view: ResourceView): void
  end(): void
}

function redraw(everyMs: number): Drawing {
  const block = new LiveBlock()
  const hint = `every ${formatDuration(everyMs)}, Ctrl-C to end`
  return {
    view: (view) => block.draw([...resourceLines(view, outputWidth()), '', hint]),
    end: () => block.end(),
  }
}

/** Ages change all the time; a reader of a log wants to know who came and went. */
function printChanges(json: boolean): Drawing {
  let last: string | null = null
  return {
    view(view) {
      const key = standingsKey(view)
      if (key === last) return
      const at = new Date().toISOString()
      if (json) printLines([toJson({ at, ...view })])
      else printLines([...(last === null ? [] : ['']), at, ...resourceLines(view)])
      last = key
    },
    end() {
      last = null
    },
  }
}
