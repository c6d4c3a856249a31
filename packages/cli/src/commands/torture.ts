import { randomInt } from 'node:crypto'
import { Command, InvalidArgumentError, Option } from 'commander'
import type { FaultName, Progress, StageDefinition, TortureOptions, TortureOutcome } from 'holdfast-torture'
import { readWholeNumber } from '../arguments.js'
import type { Cli } from '../cli.js'
import { painter } from '../demo/view.js'
import { EXIT } from '../exit-codes.js'
import { UsageError } from '../failure.js'
import { escapeText, redactCredentials } from '../format/escape.js'
import { toJson } from '../format/views.js'
import { canRedraw, LiveBlock, mayColour, outputWidth, printLines, say } from '../terminal.js'
import { listLines, liveLines, plainLine, summaryLines } from '../torture/view.js'
import { loadTorture, type TorturePackage } from '../torture-package.js'

interface CommandOptions {
  readonly url?: string
  readonly store?: string
  readonly recipe?: string
  readonly faults?: readonly string[]
  readonly seconds: number
  readonly workers: number
  readonly seed?: number
  readonly report?: string
  readonly history?: string
  readonly json?: true
  readonly list?: true
}

const SEED_MAX = 2 ** 32 - 1
const DEFAULT_STORE = 'sqlite'
const PLAIN_MS = 1_000

const ABOUT = `
Several processes contend for a few locks of every kind, while processes are killed with kill -9,
stopped and stalled, connections are cut, requests, replies and servers are lost. Everything that they
saw is written down and checked; docs/torture.md tells how.

The store is started for the run on this machine and removed afterwards. With --url it is your own:
then only the workers and relays before it are tormented, never the server, and all names begin
with "holdfast-torture:". HOLDFAST_URL does not count here.

Examples:
  holdfast torture
  holdfast torture --store redis --seconds 60 --report redis.html
  holdfast torture --store redis --recipe redlock --faults kill,pause,clock
  holdfast torture --url postgres://app@db-1/shop --faults kill,pause
  holdfast torture --list

Exit codes:
  0    nothing was violated, or only what the recipe's guarantees admit
  1    something was; the report and the history are in a folder that is named
  64   wrong usage
  69   the store cannot be had
  130  interrupted (128+n)`

export function tortureCommand(cli: Cli): Command {
  return new Command('torture')
    .summary('torment locks on a real store, and check what was seen')
    .description('Let processes contend for locks on a real store under faults, and check what they saw.')
    .usage('[options]')
    .addOption(new Option('--url <url>', 'a store of your own').conflicts(['store', 'recipe']))
    .option('--store <name>', `a store to start: see --list (default: ${DEFAULT_STORE})`)
    .option('--recipe <name>', 'one of its recipes (default: its first)')
    .addOption(new Option('--faults <list>', 'only these, such as kill,pause').argParser(readNames))
    .addOption(new Option('--seconds <n>', 'how long').argParser(readWholeNumber(2, 86_400)).default(20))
    .addOption(new Option('--workers <n>', 'how many processes').argParser(readWholeNumber(1, 64)).default(4))
    .addOption(
      new Option('--seed <n>', 'repeats a schedule of faults').argParser(readWholeNumber(0, SEED_MAX)),
    )
    .option('--report <file>', 'write what happened as an HTML page')
    .option('--history <dir>', 'keep the history, in a new or empty folder')
    .option('--json', 'print the outcome as an object')
    .option('--list', 'list the stores, their recipes and their faults')
    .addHelpText('after', ABOUT)
    .action(async (options: CommandOptions) => {
      cli.exitCode = await torture(cli, options)
    })
}

function readNames(text: string): readonly string[] {
  const names = text.split(',').map((name) => name.trim())
  if (names.includes('')) throw new InvalidArgumentError('expected names with commas between them')
  return names
}

async function torture(cli: Cli, options: CommandOptions): Promise<number> {
  const { signal } = cli.interruption
  const pack = await loadTorture('torture')
  if (options.list) {
    printLines(listLines(pack.stageDefinitions, pack.faultsOfStore, outputWidth()))
    return EXIT.ok
  }
  const settled = settle(pack, options)
  const missing = settled.stage.missing()
  if (missing !== null) {
    say(`${settled.stage.store} cannot be had here: ${missing}`)
    return EXIT.unavailable
  }
  const outcome = await watched(pack, settled, options, signal)
  signal.throwIfAborted()
  tell(outcome, options)
  return outcome.verdict.valid ? EXIT.ok : EXIT.nothing
}

function settle(pack: TorturePackage, options: CommandOptions): TortureOptions {
  const { url, seconds, workers, seed = randomInt(SEED_MAX), report = null, history = null } = options
  const prefix = `holdfast-torture:${randomInt(2 ** 40).toString(36)}:`
  const stage = url === undefined ? stageNamed(pack, options) : pack.stageForUrl(url, prefix)
  const faults = options.faults === undefined ? null : options.faults.map((name) => faultNamed(pack, name))
  const known = pack.faultsOfStore(stage.store)
  const never = url === undefined ? faults?.find((name) => !known.includes(name)) : undefined
  if (never !== undefined) {
    throw new UsageError(`${stage.store} cannot have the fault ${never}; it can have ${known.join(', ')}`)
  }
  const failures = `holdfast-torture-${stage.store}-${stage.recipe}-${seed}`
  const repeat = commandFor(options, stage, seed)
  const broken = pack.BREAKAGES.find((each) => each === process.env['HOLDFAST_TORTURE_BROKEN']) ?? null
  return { stage, seconds, workers, seed, faults, prefix, history, report, failures, repeat, broken }
}

function stageNamed(
  pack: TorturePackage,
  { store = DEFAULT_STORE, recipe }: CommandOptions,
): StageDefinition {
  const found = pack.definitionFor(store, recipe)
  if (found !== undefined) return found
  const recipes = pack.stageDefinitions.filter((each) => each.store === store).map((each) => each.recipe)
  if (recipes.length > 0)
    throw new UsageError(`${store} has no recipe ${recipe}; it has ${recipes.join(', ')}`)
  const stores = [...new Set(pack.stageDefinitions.map((each) => each.store))]
  throw new UsageError(`there is no store ${JSON.stringify(store)}; there are ${stores.join(', ')}`)
}

function faultNamed({ FAULTS }: TorturePackage, name: string): FaultName {
  const found = FAULTS.find((each) => each === name)
  if (found === undefined) {
    throw new UsageError(`there is no fault ${JSON.stringify(name)}; there are ${FAULTS.join(', ')}`)
  }
  return found
}

/** The command that repeats the run. Credentials are left out, since it ends up in reports and logs. */
function commandFor(options: CommandOptions, stage: StageDefinition, seed: number): string {
  const where =
    options.url === undefined
      ? ['--store', stage.store, '--recipe', stage.recipe]
      : ['--url', `'${redactCredentials(options.url)}'`]
  const faults = options.faults === undefined ? [] : ['--faults', options.faults.join(',')]
  const rest = ['--seconds', options.seconds, '--workers', options.workers, '--seed', seed]
  return ['holdfast torture', ...where, ...faults, ...rest].join(' ')
}

async function watched(
  { runTorture }: TorturePackage,
  settled: TortureOptions,
  { json }: CommandOptions,
  signal: AbortSignal,
): Promise<TortureOutcome> {
  const what = `${settled.stage.store} (${settled.stage.recipe}), seed ${settled.seed}`
  if (json || !canRedraw()) {
    let toldAt = Number.NEGATIVE_INFINITY
    return await runTorture(settled, signal, (progress: Progress) => {
      if (json || progress.elapsedMs - toldAt < PLAIN_MS) return
      toldAt = progress.elapsedMs
      printLines([plainLine(progress)])
    })
  }
  const block = new LiveBlock()
  const paint = painter(mayColour())
  try {
    return await runTorture(settled, signal, (progress) => block.draw(liveLines(what, progress, paint)))
  } finally {
    block.end()
  }
}

function tell(outcome: TortureOutcome, { json }: CommandOptions): void {
  if (json) {
    printLines([toJson(outcome, 2)])
    return
  }
  const { report, history, repeat } = outcome
  printLines([
    '',
    ...summaryLines(outcome, painter(mayColour()), outputWidth()),
    ...(report === null ? [] : [`Report:  ${escapeText(report)}`]),
    ...(history === null ? [] : [`History: ${escapeText(history)}`]),
    `Repeat:  ${escapeText(repeat)}`,
  ])
}
