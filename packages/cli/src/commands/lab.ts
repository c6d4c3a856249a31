import { writeFile } from 'node:fs/promises'
import { Command, Option } from 'commander'
import type { CaseOutcome, LabCase } from 'holdfast-torture'
import packageJson from '../../package.json' with { type: 'json' }
import { readWholeNumber } from '../arguments.js'
import type { Cli } from '../cli.js'
import { EXIT } from '../exit-codes.js'
import { UsageError } from '../failure.js'
import { toJson } from '../format/views.js'
import { listLines, outcomeLines, storyLines, tableLines } from '../lab/view.js'
import { outputWidth, printLines, say } from '../terminal.js'
import { loadTorture, type TorturePackage } from '../torture-package.js'

interface RunOptions {
  readonly all?: true
  readonly json?: true
  readonly report?: string
  readonly sideBySide: number
}

const ABOUT = `
A case is a recipe that is known to be broken, with the fault that shows it. It is played on real
servers, which are started for it on this machine and removed afterwards; then our recipe plays the
same schedule and must pass. docs/lab.md tells about every case.`

const EXAMPLES = `
Examples:
  holdfast lab run setnx-then-expire
  holdfast lab run check-then-write --report lab.html
  holdfast lab run --all

Exit codes:
  0    every broken one was caught with what was expected, and ours passed
  1    one was not, or ours did not
  64   wrong usage
  69   none of the cases could be run, because their stores are not installed
  130  interrupted (128+n)

A case whose store is not installed is not run, and that is said. With HOLDFAST_REQUIRE_STORES=all it
is a failure.`

export function labCommand(cli: Cli): Command {
  return new Command('lab')
    .summary('watch recipes that are known to be broken break, and ours stand')
    .description('Play recipes that are known to be broken against the fault that shows it, and ours too.')
    .usage('list|run [options] [NAME...]')
    .addHelpText('after', ABOUT)
    .addCommand(listCommand())
    .addCommand(playCommand(cli))
}

function listCommand(): Command {
  return new Command('list')
    .description('List the cases.')
    .option('--json', 'print an array of objects')
    .action(async ({ json }: { json?: true }) => {
      const { CASES } = await loadTorture('lab')
      printLines(json ? [toJson(CASES.map(describe), 2)] : listLines(CASES, outputWidth()))
    })
}

function playCommand(cli: Cli): Command {
  return new Command('run')
    .description('Play cases: the broken recipe first, then ours.')
    .argument('[NAME...]', 'which cases')
    .option('--all', 'all of them, with a table at the end')
    .option('--json', 'print an array of objects')
    .option('--report <file>', 'write what happened as an HTML page')
    .addOption(
      new Option('--side-by-side <n>', 'how many at the same time')
        .argParser(readWholeNumber(1, 32))
        .default(3),
    )
    .addHelpText('after', EXAMPLES)
    .action(async (names: readonly string[], options: RunOptions) => {
      cli.exitCode = await runLab(cli, names, options)
    })
}

function describe({ name, title, family, stores, story, fault, expects, ours }: LabCase): object {
  return { name, title, family, stores, story, fault, expects, ours }
}

async function runLab(cli: Cli, names: readonly string[], options: RunOptions): Promise<number> {
  const lab = await loadTorture('lab')
  const cases = chosen(lab, names, options)
  const stories = !options.json && options.all === undefined
  const outcomes = await lab.runCases(cases, {
    signal: cli.interruption.signal,
    // Stories are told one after the other.
    sideBySide: stories ? 1 : options.sideBySide,
    onOutcome: (outcome) => {
      if (stories) printLines([...storyLines(lab.caseNamed(outcome.name)), ...outcomeLines(outcome), ''])
      else if (options.json) say(progress(lab, outcome))
      else printLines([progress(lab, outcome)])
    },
  })
  if (options.json) printLines([toJson(outcomes.map(withoutHistory), 2)])
  else if (outcomes.length > 1) printLines(tableLines(outcomes.map(lab.rowOf), outcomes))
  if (options.report !== undefined) await writeLabReport(lab, options.report, outcomes)
  return exitCodeOf(lab, outcomes)
}

function chosen(
  { CASES }: TorturePackage,
  names: readonly string[],
  { all }: RunOptions,
): readonly LabCase[] {
  if (all !== undefined && names.length > 0) throw new UsageError('--all cannot be used with names of cases')
  if (all !== undefined) return CASES
  if (names.length === 0) throw new UsageError('which case? "holdfast lab list" shows them; --all plays all')
  return [...new Set(names)].map((name) => {
    const found = CASES.find((each) => each.name === name)
    if (found === undefined) {
      throw new UsageError(`there is no case ${JSON.stringify(name)}; "holdfast lab list" shows them`)
    }
    return found
  })
}

function progress({ rowOf }: TorturePackage, outcome: CaseOutcome): string {
  const { name, broken, ours, verdict } = rowOf(outcome)
  return `${name}: ${verdict}${outcome.kind === 'ran' ? ` (${broken}; ours ${ours})` : ''}`
}

/** The events are many, and the report has them. */
function withoutHistory(outcome: CaseOutcome): object {
  if (outcome.kind !== 'ran') return outcome
  const { broken, ours, ...rest } = outcome
  const { history: _broken, ...ofBroken } = broken
  const { history: _ours, ...ofOurs } = ours
  return { ...rest, broken: ofBroken, ours: ofOurs }
}

async function writeLabReport(
  { labReport, renderReport }: TorturePackage,
  file: string,
  outcomes: readonly CaseOutcome[],
): Promise<void> {
  const command = `holdfast lab run ${outcomes.map(({ name }) => name).join(' ')}`
  const input = labReport(outcomes, { command, generatedBy: `holdfast ${packageJson.version}` })
  try {
    await writeFile(file, renderReport(input), 'utf8')
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new UsageError(`the report cannot be written: ${reason}`)
  }
}

function exitCodeOf({ isGood }: TorturePackage, outcomes: readonly CaseOutcome[]): number {
  const ran = outcomes.filter(({ kind }) => kind !== 'not run')
  if (ran.length === 0) return EXIT.unavailable
  return ran.every(isGood) ? EXIT.ok : EXIT.nothing
}
