// @ts-check
// Servers that several processes share. One process, the host, starts each kind of server when it is first asked for it, and
// tells the others where it is. Each caller gets a part of the store that no other caller has.
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { controlledStore } from './controlled.js'
import { mysqlQuery } from './mysql-wire.js'
import { postgresQuery } from './postgres-wire.js'
import { disposeAll } from './process.js'
import { startRedis } from './redis.js'
import { storeFor, stores } from './registry.js'

/** Names the socket of the host. */
export const sharedServersVariable = 'HOLDFAST_SHARED_SERVERS'

/** @typedef {import('./store.js').StoreOutcome} StoreOutcome */

/**
 * What the host answers: `callers` counts how often the store was asked for.
 * @typedef {{ readonly kind: 'ready', readonly url: string, readonly callers: number }
 *   | import('./store.js').StoreNotRun
 *   | { readonly kind: 'failed', readonly message: string }} HostAnswer
 */

const databasesOfRedis = 8_192
const queryMs = 60_000

/** Each caller gets a database of its own in Redis, so there must be more than the usual sixteen. */
const sharedStores = new Map([
  ...stores,
  [
    'redis',
    controlledStore('redis', {
      programs: ['redis-server'],
      start: () => startRedis({ args: ['--databases', String(databasesOfRedis)] }),
    }),
  ],
])

/**
 * Starts the host. Its servers run until it is disposed of.
 * @returns {Promise<{ readonly socket: string, dispose(): Promise<void> }>}
 */
export async function hostSharedServers() {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-shared-'))
  const socket = join(folder, 'socket')
  /** @type {Map<string, { readonly outcome: Promise<StoreOutcome>, callers: number }>} */
  const started = new Map()

  /** @param {string} name @returns {Promise<HostAnswer>} */
  const answer = async (name) => {
    const entry = started.get(name) ?? { outcome: storeFor(name, sharedStores), callers: 0 }
    started.set(name, entry)
    entry.callers += 1
    const { callers } = entry
    try {
      const outcome = await entry.outcome
      return outcome.kind === 'ready' ? { kind: 'ready', url: outcome.store.url, callers } : outcome
    } catch (error) {
      return { kind: 'failed', message: error instanceof Error ? error.message : String(error) }
    }
  }
  const server = createServer((incoming, response) => {
    void answer(decodeURIComponent((incoming.url ?? '/').slice(1))).then((found) =>
      response.end(JSON.stringify(found)),
    )
  })
  await new Promise((/** @type {(value: void) => void} */ resolve, reject) => {
    server.once('error', reject)
    server.listen(socket, resolve)
  })
  server.unref()
  return {
    socket,
    async dispose() {
      server.close()
      const outcomes = await Promise.allSettled([...started.values()].map(({ outcome }) => outcome))
      await disposeAll(
        outcomes.flatMap((each) =>
          each.status === 'fulfilled' && each.value.kind === 'ready' ? [each.value.store] : [],
        ),
      )
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/**
 * Gives a fresh part of a store whose servers other files use as well: a database, or names below a path. Where no host
 * runs, it starts servers for this caller only. A test that kills, pauses, fills or configures a server, or that counts on
 * keys outside of its part, must use `storeFor`. On memcached, and on groups of Redis servers, all callers share one
 * space: they must use a prefix of their own.
 * @param {string} name
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {Promise<StoreOutcome>}
 */
export async function sharedStoreFor(name, env = process.env) {
  const socket = env[sharedServersVariable]
  if (socket === undefined || stores.get(name)?.programs === undefined) return storeFor(name, stores, env)
  const found = await askHost(socket, name)
  if (found.kind === 'failed') throw new Error(`The shared store '${name}' did not start: ${found.message}`)
  if (found.kind === 'not run') return found
  return { kind: 'ready', store: await partOf(name, found.url, found.callers) }
}

/** @param {string} socketPath @param {string} name @returns {Promise<HostAnswer>} */
function askHost(socketPath, name) {
  return new Promise((resolve, reject) => {
    const asking = request({ socketPath, path: `/${encodeURIComponent(name)}` }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (/** @type {string} */ part) => {
        text += part
      })
      response.on('end', () => resolve(JSON.parse(text)))
      response.on('error', reject)
    })
    asking.on('error', reject)
    asking.end()
  })
}

/**
 * @param {string} name
 * @param {string} url
 * @param {number} callers
 * @returns {Promise<import('./store.js').Store>}
 */
async function partOf(name, url, callers) {
  const tag = `part_${randomBytes(6).toString('hex')}`
  const nothing = async () => {}
  if (name === 'redis') return { name, url: `${url}/${callers % databasesOfRedis}`, dispose: nothing }
  if (/^(etcd|consul|zookeeper)(-|$)/.test(name)) return { name, url: `${url}/${tag}`, dispose: nothing }
  if (!['postgres', 'mysql', 'mariadb'].includes(name)) return { name, url, dispose: nothing }
  const port = Number(new URL(url).port)
  const own = url.replace(/[^/]*$/, tag)
  const query = name === 'postgres' ? postgresQuery : mysqlQuery
  await query(port, `CREATE DATABASE ${tag}`, { timeoutMs: queryMs })
  // The database goes with the server. To drop it now would cut off connections that the drivers are still closing.
  return { name, url: own, dispose: nothing }
}
