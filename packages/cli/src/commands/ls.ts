import { Command } from 'commander'
import type { Deadlock, ResourceView } from 'holdfast'
import { urlOption } from '../arguments.js'
import type { Cli } from '../cli.js'
import { deadlocksAround, deadlocksAt, showsWhoWaits } from '../deadlocks.js'
import { EXIT } from '../exit-codes.js'
import { UsageError } from '../failure.js'
import { deadlockLines, hiddenOf, listLines, quoteName, toJson } from '../format/views.js'
import { withLocks } from '../store.js'
import { outputWidth, printLines, say } from '../terminal.js'

interface LsOptions {
  readonly url?: string
  readonly json?: true
  readonly deadlocks?: true
}

const EXAMPLES = `
Examples:
  holdfast ls
  holdfast ls deploy:
  holdfast ls --json | jq '.[] | select(.waiters | length > 0) | .resource'
  holdfast ls --deadlocks || echo "somebody must let go"

Exit codes of --deadlocks:
  0    there is none
  64   wrong usage, or a store that does not show who waits for what
  80   there is a deadlock
  81   there may be one: of claims that do not say where they belong, one process can have several pieces of work`

export function lsCommand(cli: Cli): Command {
  return new Command('ls')
    .summary('list the locks that are held or waited for')
    .description('List the locks that are held or waited for, in order of name.')
    .argument('[prefix]', 'only names that begin with this', '')
    .addOption(urlOption())
    .option('--json', 'print an array of objects; fences are strings')
    .option('--deadlocks', 'print only who waits for whom in a circle, and exit with a code that says so')
    .addHelpText('after', EXAMPLES)
    .action(async (prefix: string, options: LsOptions) => {
      cli.exitCode = await list(cli, prefix, options)
    })
}

async function list(cli: Cli, prefix: string, options: LsOptions): Promise<number> {
  const { signal } = cli.interruption
  return await withLocks(options.url, signal, async (locks) => {
    if (options.deadlocks && !showsWhoWaits(locks.guarantees)) {
      throw new UsageError(
        `the ${locks.backend} store does not show who waits for what with this recipe, so nobody can tell whether there is a deadlock`,
      )
    }
    const views: ResourceView[] = []
    for await (const view of locks.list(prefix)) {
      signal.throwIfAborted()
      views.push(view)
    }
    const deadlocks = await deadlocksAround(locks, views, signal)
    const hidden = views.reduce((sum, view) => sum + hiddenOf(view), 0)
    if (hidden > 0)
      say(`the store does not show ${hidden} of the claims, so a deadlock among them is not found`)
    if (options.deadlocks) return printDeadlocks(deadlocks, options.json === true)
    if (options.json) {
      printLines([
        toJson(
          views.map((view) => ({ ...view, deadlocks: deadlocksAt(view.resource, deadlocks) })),
          2,
        ),
      ])
    } else if (views.length > 0) {
      printLines(listLines(views, outputWidth()))
      if (deadlocks.length > 0) printLines(['', ...deadlockLines(deadlocks)])
    } else {
      const such = prefix === '' ? '' : ` whose names begin with ${quoteName(prefix)}`
      say(`no locks are held${such}`)
    }
    return EXIT.ok
  })
}

function printDeadlocks(deadlocks: readonly Deadlock[], json: boolean): number {
  if (json) printLines([toJson(deadlocks, 2)])
  else if (deadlocks.length > 0) printLines(deadlockLines(deadlocks))
  else say('no deadlocks')
  if (deadlocks.length === 0) return EXIT.ok
  return deadlocks.some(({ certain }) => certain) ? EXIT.deadlock : EXIT.possibleDeadlock
}
