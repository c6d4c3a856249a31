#!/usr/bin/env node
// @ts-check
// The command: installs what stores need, starts one by hand, lists them.
import { requiresAll } from './browser.js'
import { clockPrograms } from './clock.js'
import { ensurePrograms } from './install.js'
import { requiredStores } from './policy.js'
import { missingPrograms } from './programs.js'
import { storeFor, stores } from './registry.js'
import { prepareZookeeper } from './zookeeper.js'

const help = `Usage: node tools/servers/src/main.js <command>

  install [store...]  installs the programs that the given stores need, or all stores and all tests
  start <store>       starts a store on the loopback address, prints its URL and stays until Ctrl-C
  list                lists the stores and the programs that they need

Installing needs Linux with apt-get, and root or a sudo that asks for no password. HOLDFAST_INSTALL=no forbids it.
MySQL and Consul are not installed but unpacked into the cache folder, which needs neither.
HOLDFAST_REQUIRE_STORES (all, or names with commas between them) makes a missing program of a store an error.
The tests start every server themselves; compose.yaml is for people, and no test uses it.
`

/** What belongs to no store: a browser for tests of pages, a pooler before a database, and what makes clocks that can be set. */
const others = ['chromium', 'pgbouncer', ...clockPrograms]

/** A mistake in how the command was called. */
class UsageError extends Error {}

/** @param {string} name */
function storeNamed(name) {
  const store = stores.get(name)
  if (store === undefined) {
    throw new UsageError(`There is no store '${name}'; the stores are ${[...stores.keys()].join(', ')}.`)
  }
  return store
}

/**
 * @param {readonly string[]} names
 * @returns {Promise<number>}
 */
async function install(names) {
  const chosen = names.length === 0 ? [...stores.values()] : names.map(storeNamed)
  const required = requiredStores(process.env.HOLDFAST_REQUIRE_STORES, [...stores.keys()])
  const unnamed = names.length === 0 ? others : []
  const needed = new Set([
    ...chosen.flatMap((store) => (required.has(store.name) ? (store.programs ?? []) : [])),
    ...(requiresAll(process.env) ? unnamed : []),
  ])
  const wanted = [
    ...chosen.flatMap((store) => [...(store.programs ?? []), ...(store.extras ?? [])]),
    ...unnamed,
  ]
  const states = await ensurePrograms(wanted, { log: (line) => void process.stderr.write(`${line}\n`) })
  for (const { name, kind, reason } of states) {
    process.stdout.write(`${name}: ${kind}${reason === undefined ? '' : `: ${reason}`}\n`)
  }
  if (chosen.some(({ name }) => name.startsWith('zookeeper'))) {
    // Servers start without the archive as well, only slower.
    await prepareZookeeper().catch((error) => {
      process.stderr.write(`The class archive of ZooKeeper could not be made: ${error.message}\n`)
    })
  }
  const failed = states.filter(({ name, kind }) => kind === 'missing' && needed.has(name))
  if (failed.length > 0)
    process.stderr.write('HOLDFAST_REQUIRE_STORES requires something whose program is missing.\n')
  return failed.length > 0 ? 1 : 0
}

/**
 * @param {readonly string[]} names
 * @returns {Promise<number>}
 */
async function start(names) {
  const [name] = names
  if (name === undefined || names.length > 1) throw new UsageError('Name one store to start.')
  storeNamed(name)
  // A signal that comes during the start is remembered, so that what was started is put away.
  const asked = new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, resolve)
  })
  const outcome = await storeFor(name)
  if (outcome.kind === 'not run') {
    process.stderr.write(`${name}: not run, because ${outcome.reason}.\n`)
    return 1
  }
  process.stdout.write(`${outcome.store.url}\n`)
  const awake = setInterval(() => undefined, 60_000)
  await asked
  clearInterval(awake)
  await outcome.store.dispose()
  return 0
}

/** @returns {number} */
function list() {
  for (const { name, programs = [] } of stores.values()) {
    const missing = missingPrograms(programs)
    const needs = programs.length === 0 ? 'nothing to install' : programs.join(', ')
    process.stdout.write(
      `${name}: ${needs}${missing.length === 0 ? '' : ` (missing: ${missing.join(', ')})`}\n`,
    )
  }
  return 0
}

/**
 * @param {readonly string[]} args
 * @returns {Promise<number>} The exit code.
 */
async function main([command, ...rest]) {
  if (command === undefined || command === '--help' || command === '-h' || rest.includes('--help')) {
    process.stdout.write(help)
    return command === undefined ? 2 : 0
  }
  if (command === 'install') return install(rest)
  if (command === 'start') return start(rest)
  if (command === 'list' && rest.length === 0) return list()
  throw new UsageError(`'${[command, ...rest].join(' ')}' is nothing that this command does.`)
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  const usage = error instanceof UsageError
  const message = error instanceof Error ? error.message : String(error)
  process.stderr.write(`${message}
${
  usage
    ? `
${help}`
    : ''
}`)
  process.exitCode = usage ? 2 : 1
}
