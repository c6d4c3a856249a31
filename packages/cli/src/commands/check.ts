import { Command } from 'commander'
import type { History, ModelName, Verdict } from 'holdfast-torture'
import { checkLines } from '../check/view.js'
import type { Cli } from '../cli.js'
import { EXIT } from '../exit-codes.js'
import { UsageError } from '../failure.js'
import { toJson } from '../format/views.js'
import { outputWidth, printLines } from '../terminal.js'
import { loadTorture, type TorturePackage } from '../torture-package.js'

interface CheckOptions {
  readonly json?: true
  readonly model?: string
}

const EXAMPLES = `
Examples:
  holdfast check run/w1.jsonl run/w2.jsonl run/w3.jsonl
  holdfast check --model mutex etcd.edn
  holdfast check --json *.jsonl | jq .violations

The files together are one history: one JSON object a line, or what Jepsen and Knossos write, in files
that end in .edn. docs/checking.md tells what stands in them, and how to write one with any program.

Without --model each resource is judged by what the header of the history says that it is.

Exit codes:
  0    no promise was broken, as far as this can tell; what could not be decided is said
  1    there is a violation, or a line that makes no sense
  64   wrong usage, or a file that cannot be read`

export function checkCommand(cli: Cli): Command {
  return new Command('check')
    .summary('judge a history of calls on locks')
    .description(
      'Judge a history of what the callers of locks saw: whether it can have been, and what was broken.',
    )
    .argument('<file...>', 'the files of one history')
    .option('--model <name>', 'judge every resource as this: mutex, semaphore, register, ...')
    .option('--json', 'print the verdict as an object')
    .addHelpText('after', EXAMPLES)
    .action(async (files: readonly string[], options: CheckOptions) => {
      cli.exitCode = await check(files, options)
    })
}

async function check(files: readonly string[], options: CheckOptions): Promise<number> {
  const torture = await loadTorture('check')
  const model = options.model === undefined ? undefined : readModel(torture, options.model)
  const history = read(torture, files)
  if (history.events.length === 0 && history.malformed.length === 0) {
    throw new UsageError('there is nothing in these files')
  }
  const verdict: Verdict = torture.checkHistory(history, model === undefined ? {} : { model })
  const resources = torture.overviewOf(history)
  printLines(
    options.json ? [toJson({ ...verdict, resources }, 2)] : checkLines(verdict, resources, outputWidth()),
  )
  return verdict.valid ? EXIT.ok : EXIT.unwell
}

function readModel({ MODELS }: TorturePackage, text: string): ModelName {
  const model = MODELS.find((name) => name === text)
  if (model === undefined) throw new UsageError(`--model is one of ${MODELS.join(', ')}`)
  return model
}

function read({ readHistory }: TorturePackage, files: readonly string[]): History {
  try {
    return readHistory(files)
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    const what =
      code === 'ENOENT' ? 'does not exist' : code === 'EISDIR' ? 'is a folder' : `cannot be read (${code})`
    throw new UsageError(`${path ?? 'one of the files'} ${what}`)
  }
}
