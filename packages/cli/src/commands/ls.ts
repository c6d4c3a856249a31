import { Command } from 'commander'
import type { ResourceView } from 'holdfast'
import { urlOption } from '../arguments.js'
import type { Cli } from '../cli.js'
import { EXIT } from '../exit-codes.js'
import { listLines, quoteName, toJson } from '../format/views.js'
import { withLocks } from '../store.js'
import { outputWidth, printLines, say } from '../terminal.js'

interface LsOptions {
  readonly url?: string
  readonly json?: true
}

const EXAMPLES = `
Examples:
  holdfast ls
  holdfast ls deploy:
  holdfast ls --json | jq '.[] | select(.waiters | length > 0) | .resource'`

export function lsCommand(cli: Cli): Command {
  return new Command('ls')
    .summary('list the locks that are held or waited for')
    .description('List the locks that are held or waited for, in order of name.')
    .argument('[prefix]', 'only names that begin with this', '')
    .addOption(urlOption())
    .option('--json', 'print an array of objects; fences are strings')
    .addHelpText('after', EXAMPLES)
    .action(async (prefix: string, options: LsOptions) => {
      cli.exitCode = await list(cli, prefix, options)
    })
}

async function list(cli: Cli, prefix: string, options: LsOptions): Promise<number> {
  const { signal } = cli.interruption
  return await withLocks(options.url, signal, async (locks) => {
    const views: ResourceView[] = []
    for await (const view of locks.list(prefix)) {
      signal.throwIfAborted()
      views.push(view)
    }
    if (options.json) printLines([toJson(views, 2)])
    else if (views.length > 0) printLines(listLines(views, outputWidth()))
    else
      say(
        prefix === '' ? 'no locks are held' : `no locks are held whose names begin with ${quoteName(prefix)}`,
      )
    return EXIT.ok
  })
}
