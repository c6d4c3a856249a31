import { Command } from 'commander'
import type { AuthEntry, AuthRight } from 'holdfast-service'
import { readDuration } from '../arguments.js'
import type { Cli } from '../cli.js'
import { EXIT } from '../exit-codes.js'
import { UsageError } from '../failure.js'
import { escapeText } from '../format/escape.js'
import { layOutTable } from '../format/table.js'
import { quoteName } from '../format/views.js'
import { outputWidth, printLines, say } from '../terminal.js'

type Service = typeof import('holdfast-service')

interface CreateOptions {
  readonly file: string
  readonly name: string
  readonly prefix: readonly string[]
  readonly can: string
  readonly maxTtl?: number
  readonly expires?: string
}

const EXAMPLES = `
Examples:
  holdfast token create --file auth.json --name ci --prefix jobs/ --can acquire,inspect
  holdfast token create --file auth.json --name ops --prefix '' --can inspect,break
  holdfast token list --file auth.json
  holdfast token revoke --file auth.json --name ci

The rights are acquire (and renew and release), inspect (see who holds and waits) and break
(take a lock away from whoever holds it). They hold for all names that begin with a prefix.
A service that runs with "holdfast serve --auth auth.json" notices every change within a second.

Exit codes:
  0    done
  1    there is no token of that name
  64   wrong usage, or a file that cannot be used`

export function tokenCommand(cli: Cli): Command {
  const command = new Command('token')
    .summary('make, list and revoke the tokens with which programs use the service')
    .description('Make, list and revoke the bearer tokens of an auth file for "holdfast serve".')
    .usage('create|list|revoke --file FILE [options]')
    .addHelpText('after', EXAMPLES)
  command
    .command('create')
    .description('Make a token, print it once, and keep its digest in the file.')
    .requiredOption('--file <file>', 'the auth file; it is made if there is none')
    .requiredOption('--name <name>', 'whose token it is, for logs and lists')
    .requiredOption(
      '--prefix <prefix>',
      "the beginning of the names, '' for all; may be given again",
      collect,
    )
    .requiredOption('--can <rights>', 'some of acquire, inspect, break, with commas between')
    .option('--max-ttl <duration>', 'the longest lease that it may ask for, such as 5m', readDuration)
    .option('--expires <time>', 'when it ends, such as 2027-01-31T00:00:00Z')
    .action(async (options: CreateOptions) => {
      cli.exitCode = await create(options)
    })
  command
    .command('list')
    .description('List the tokens of the file: who may do what. The tokens themselves are not in it.')
    .requiredOption('--file <file>', 'the auth file')
    .action(async ({ file }: { readonly file: string }) => {
      cli.exitCode = await list(file)
    })
  command
    .command('revoke')
    .description('Take a token out of the file.')
    .requiredOption('--file <file>', 'the auth file')
    .requiredOption('--name <name>', 'whose token')
    .action(async ({ file, name }: { readonly file: string; readonly name: string }) => {
      cli.exitCode = await revoke(file, name)
    })
  return command
}

function collect(prefix: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), prefix]
}

/** The service brings a server along that the other commands need not load. */
async function withService<T>(work: (service: Service) => Promise<T>): Promise<T> {
  const service = await import('holdfast-service')
  try {
    return await work(service)
  } catch (error) {
    if (error instanceof service.AuthFileError) throw new UsageError(`the auth file: ${error.message}`)
    if (error instanceof Error && 'syscall' in error && 'code' in error) {
      throw new UsageError(`the auth file cannot be used (${String(error.code)})`)
    }
    throw error
  }
}

async function create(options: CreateOptions): Promise<number> {
  return await withService(async (service) => {
    const entry: Omit<AuthEntry, 'sha256'> = {
      name: service.checkTokenName(options.name, '--name'),
      rights: rightsOf(service, options),
      ...(options.maxTtl === undefined ? {} : { maxTtlMs: service.checkTtl(options.maxTtl, '--max-ttl') }),
      ...(options.expires === undefined
        ? {}
        : { expires: service.checkExpires(options.expires, '--expires') }),
    }
    const token = await service.addToken(options.file, entry)
    // Only the token goes to the output, so that a script can take it.
    printLines([token])
    say(`this is the token of ${entry.name}; it is shown this once, and the file keeps only its digest`)
    return EXIT.ok
  })
}

function rightsOf(service: Service, options: CreateOptions): AuthRight[] {
  const can = options.can.split(',').map((right) => service.checkRightName(right.trim(), '--can'))
  return options.prefix.map((prefix) => ({ prefix: service.checkPrefix(prefix, '--prefix'), can }))
}

async function list(file: string): Promise<number> {
  const { tokens } = await withService(async (service) => await service.readAuth(file))
  if (tokens.length === 0) {
    say('there are no tokens in it')
    return EXIT.ok
  }
  const rows = tokens.map((entry) => [
    escapeText(entry.name),
    entry.rights.map(({ prefix, can }) => `${quoteName(prefix)} ${can.join(',')}`).join('; '),
    entry.maxTtlMs === undefined ? '' : `${entry.maxTtlMs} ms`,
    escapeText(entry.expires ?? ''),
  ])
  const columns = [
    { heading: 'NAME' },
    { heading: 'RIGHTS', shrinks: true },
    { heading: 'MAX TTL' },
    { heading: 'EXPIRES' },
  ]
  printLines(layOutTable(columns, rows, outputWidth()))
  return EXIT.ok
}

async function revoke(file: string, name: string): Promise<number> {
  const found = await withService(async (service) => await service.removeToken(file, name))
  say(found ? `the token of ${escapeText(name)} is revoked` : `there is no token of that name`)
  return found ? EXIT.ok : EXIT.nothing
}
