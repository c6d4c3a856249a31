import { Command, Option } from 'commander'
import type { LogLine, Service, ServiceOptions } from 'holdfast-service'
import { urlOption } from '../arguments.js'
import type { Cli } from '../cli.js'
import { EXIT } from '../exit-codes.js'
import { UsageError } from '../failure.js'
import { orAborted } from '../interruption.js'
import { type ListenAddress, readListen } from '../serve/address.js'
import { DemoLocks } from '../serve/demo-locks.js'
import { jsonLine, plainLine } from '../serve/log.js'
import { readTls } from '../serve/tls.js'
import { storeUrl } from '../store.js'
import { printLines, say } from '../terminal.js'

interface ServeOptions {
  readonly url?: string
  readonly listen: ListenAddress
  readonly auth?: string
  readonly tlsCert?: string
  readonly tlsKey?: string
  readonly insecure?: true
  readonly allowHost: readonly string[]
  readonly jsonLog?: true
  readonly demo?: true
}

/** A store in this process, so that a demonstration leaves nothing behind. */
const DEMO_URL = 'memory:holdfast-demo'
const DRAIN_MS = 10_000

const EXAMPLES = `
Examples:
  holdfast serve
  holdfast serve --demo
  holdfast serve --url redis://cache-1:6379 --listen 127.0.0.1:8080
  holdfast token create --file auth.json --name ci --prefix jobs/ --can acquire,inspect
  holdfast serve --listen 0.0.0.0:4600 --auth auth.json --tls-cert cert.pem --tls-key key.pem

It serves the page at /, the API below /v1, its description at /docs and /openapi.json, metrics at
/metrics, and /healthz and /readyz. Several instances over one store serve the same locks.

Beyond this machine it listens only with --auth and TLS, or with --insecure, which is meant for a
service that stands behind something that protects it.

SIGTERM and Ctrl-C stop it in order: those who wait are turned away, requests under way are
finished, and holds stay with their owners. A second signal stops it at once.

Exit codes:
  0    it was told to stop, and did
  64   wrong usage, an address that cannot be listened on, or a file that cannot be used
  69   the store is not available`

export function serveCommand(cli: Cli): Command {
  return new Command('serve')
    .summary('serve locks over HTTP, with a page to watch them')
    .description(
      'Serve the locks of a store over HTTP to programs in every language, with a page to watch them.',
    )
    .addOption(urlOption())
    .addOption(
      new Option('--listen <host:port>', 'where to listen; port 0 takes a free one')
        .argParser(readListen)
        .default({ host: '127.0.0.1', port: 4600 }, '127.0.0.1:4600'),
    )
    .option('--auth <file>', 'the tokens that are known; make the file with "holdfast token create"')
    .option('--tls-cert <file>', 'the certificate, in PEM')
    .option('--tls-key <file>', 'its key, in PEM')
    .option('--insecure', 'listen beyond this machine without authentication or TLS')
    .option('--allow-host <name>', 'a name that requests may ask for; may be given again', collect, [])
    .option('--json-log', 'write every request as a line of JSON to standard error')
    .option('--demo', 'fill it with living locks, in the memory of this process unless --url is given')
    .addHelpText('after', EXAMPLES)
    .action(async (options: ServeOptions, command: Command) => {
      cli.exitCode = await serve(cli, storeOf(options, command), options)
    })
}

function collect(name: string, before: readonly string[]): readonly string[] {
  return [...before, name]
}

function storeOf({ url, demo }: ServeOptions, command: Command): string {
  // The environment names the store of real work, and a demonstration would take real names there.
  if (demo && command.getOptionValueSource('url') !== 'cli') return DEMO_URL
  return storeUrl(url)
}

async function serve(cli: Cli, url: string, options: ServeOptions): Promise<number> {
  const { signal } = cli.interruption
  const service = await orAborted(start(url, options), signal)
  let demo: DemoLocks | null = null
  try {
    if (options.demo) demo = await DemoLocks.open(url)
    printLines(welcome(service.url, options))
    await stopped(signal)
  } finally {
    await demo?.close()
    await service.close({ drainMs: DRAIN_MS })
  }
  return EXIT.ok
}

async function start(url: string, options: ServeOptions): Promise<Service> {
  const { createService, AuthFileError, ListenError } = await import('holdfast-service')
  const { auth, insecure, allowHost } = options
  const tls = await readTls(options)
  const settings: ServiceOptions = {
    url,
    listen: options.listen,
    allowHosts: allowHost,
    insecure: insecure === true,
    log: options.jsonLog ? logAsJson : logPlainly,
    ...(auth === undefined ? {} : { auth }),
    ...(tls === null ? {} : { tls }),
  }
  try {
    const service = await createService(settings)
    await listen(service, options.listen)
    return service
  } catch (error) {
    if (error instanceof AuthFileError || error instanceof ListenError) throw new UsageError(error.message)
    throw error
  }
}

async function listen(service: Service, { host, port }: ListenAddress): Promise<void> {
  try {
    await service.listen()
  } catch (error) {
    await service.close({ drainMs: 0 })
    const { code } = error as NodeJS.ErrnoException
    const where = `${host}:${port}`
    if (code === 'EADDRINUSE') {
      throw new UsageError(
        `${where} is taken already; choose another with --listen (port 0 takes a free one)`,
      )
    }
    if (code === 'EACCES') throw new UsageError(`${where} may not be listened on by this user`)
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
      throw new UsageError(`${where} is no address of this machine`)
    }
    throw error
  }
}

function welcome(url: string, { auth, demo }: ServeOptions): readonly string[] {
  const token = auth === undefined ? '' : " -H 'Authorization: Bearer hft_…'"
  const curl = `curl -X POST ${url}/v1/locks/deploy/acquire${token} -H 'Content-Type: application/json' -d '{"note":"trying it"}'`
  return [
    `Holdfast serves locks at ${url} ${demo ? '(with some to look at; Ctrl-C stops it)' : '(Ctrl-C stops it)'}`,
    '',
    'Three things to try:',
    `  ${curl}`,
    `  npx holdfast ls --url ${url}`,
    `  open ${url}/ in a browser: who holds what, live`,
    '',
  ]
}

function stopped(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    // The server keeps the process up, and nothing else has to.
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

function logAsJson(line: LogLine): void {
  process.stderr.write(`${jsonLine(line)}\n`)
}

function logPlainly(line: LogLine): void {
  const text = plainLine(line)
  if (text !== null) say(text)
}
