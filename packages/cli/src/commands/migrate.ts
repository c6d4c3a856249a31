import { Command } from 'commander'
import { schemaOf } from 'holdfast'
import { urlOption } from '../arguments.js'
import type { Cli } from '../cli.js'
import { EXIT } from '../exit-codes.js'
import { orAborted } from '../interruption.js'
import { storeUrl, withLocks, withRecords } from '../store.js'
import { printLines, say } from '../terminal.js'

interface MigrateOptions {
  readonly url?: string
  readonly print?: true
  readonly records?: true
}

const EXAMPLES = `
Examples:
  holdfast migrate --url postgres://app@db-1/shop
  holdfast migrate --url 'mysql://app@db-1/shop?tablePrefix=locks_'
  holdfast migrate --url postgres://db-1/shop --print | psql --single-transaction shop
  holdfast migrate --url mysql://db-1/shop --print | mysql shop
  holdfast migrate --url postgres://app@db-1/shop --records

It can be run again at any time, and while locks are held. The user must be allowed to make
tables and routines; those who only lock need less, and "holdfast doctor" tells what.
With --print, no server is asked anything.

Exit codes:
  0    everything that is needed is there, or nothing is needed
  64   wrong usage, or a user who may not do this
  69   the store is not available`

export function migrateCommand(cli: Cli): Command {
  return new Command('migrate')
    .summary('make the tables and routines that a database needs')
    .description(
      'Make the tables and routines that locks or records of idempotency in a database need, or bring them up to date.',
    )
    .addOption(urlOption())
    .option('--print', 'print the SQL instead of running it')
    .option('--records', 'make the table of idempotency records instead of those of locks')
    .addHelpText('after', EXAMPLES)
    .action(async (options: MigrateOptions) => {
      cli.exitCode = await migrate(cli, options)
    })
}

async function migrate(cli: Cli, { url, print, records }: MigrateOptions): Promise<number> {
  const { signal } = cli.interruption
  if (records) {
    return await withRecords(url, signal, async (store) => {
      const make = async (): Promise<void> => {
        await store.open()
        await store.migrate?.()
      }
      return await showOrMake(store.schema ?? null, print, async () => {
        await orAborted(make(), signal)
        return store.name
      })
    })
  }
  // An empty variable in the environment means the same as none.
  const schema = await schemaOf(storeUrl(url))
  return await showOrMake(schema, print, () =>
    withLocks(url, signal, async (locks) => {
      await orAborted(locks.migrate(), signal)
      return locks.backend
    }),
  )
}

/** `make` says the name of the store in which it has made everything. */
async function showOrMake(
  schema: string | null,
  print: true | undefined,
  make: () => Promise<string>,
): Promise<number> {
  if (schema === null) {
    say('nothing to do: this store needs no tables')
  } else if (print) {
    printLines([schema.trimEnd()])
  } else {
    printLines([`These are there now, in ${await make()}:`, ...madeBy(schema).map((each) => `  ${each}`)])
  }
  return EXIT.ok
}

const MAKING =
  /^CREATE (?:OR REPLACE )?(TABLE|SEQUENCE|FUNCTION|PROCEDURE) (?:IF NOT EXISTS )?([a-z0-9_.]+)/gm

/** What the SQL makes, in its order, such as `table holdfast_places`. */
function madeBy(schema: string): string[] {
  return [...schema.matchAll(MAKING)].map(([, kind = '', name = '']) => `${kind.toLowerCase()} ${name}`)
}
