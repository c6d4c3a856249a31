import { createLocks, type Locks } from '../client/client.js'
import { asyncContexts } from '../core/async-context.js'
import type { Backend } from '../core/backend.js'
import type { ClientOptions } from '../core/options.js'
import { identityOfUrl } from './identity.js'
import { type ForEachStore, readUrl, sqlitePath, urlGiven } from './url.js'

export interface OpenOptions {
  /** Whether many callers ask at once, over connections of their own, as they do of a service. */
  readonly servesMany?: boolean
}

type Opener = (rest: string, url: string, options: OpenOptions) => Promise<Backend>

/** Stores are loaded when they are asked for, so that a program pays only for the one it uses. */
const OPENERS: ForEachStore<Opener> = {
  memory: openMemory,
  sqlite: openSqlite,
  redis: openRedisUrl,
  postgres: openPostgresUrl,
  mysql: openMysqlUrl,
  consul: openConsulUrl,
  etcd: openEtcdUrl,
  zookeeper: openZookeeperUrl,
  memcached: openMemcachedUrl,
  http: openHttpUrl,
}

/**
 * Opens the locks of a store.
 *
 *     memory:            a store of its own inside this process; `memory:NAME` is shared by name
 *     sqlite:            the per-user default file; `sqlite:PATH` another one
 *     redis://HOST:PORT  a Redis or Valkey server; `rediss:` the same over TLS; `redis+sentinel://HOSTS/MASTER`,
 *                        `redis+cluster://HOSTS` and `redis+redlock://HOSTS` several, with commas between them
 *     postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE  a PostgreSQL, MySQL or MariaDB server
 *     etcd://HOSTS       an etcd server or cluster, with commas between the hosts; `etcds:` the same over TLS
 *     zookeeper://HOSTS/PATH  a ZooKeeper ensemble, with all locks below PATH; `zookeepers:` the same over TLS
 *     memcached://HOST:PORT  a memcached server; `memcacheds:` the same over TLS
 *     consul://HOST:PORT/PREFIX  an agent of Consul, or several with commas between them; `consuls:` the same over TLS
 *     http://HOST:PORT   a lock service, or several instances of one with commas between them; `https:` the same over TLS
 *
 * `connect()` without a URL means `sqlite:`, which several processes of one machine can share with nothing to install or
 * start. A URL that is undefined, null or empty is refused: it comes from a variable that is not set.
 */
export function connect(): Promise<Locks>
export function connect(url: string, options?: ClientOptions): Promise<Locks>
export async function connect(...args: [url?: string, options?: ClientOptions]): Promise<Locks> {
  const [, options = {}] = args
  const backend = await openBackend(urlGiven(args))
  try {
    return await createLocks(backend, options)
  } catch (error) {
    // Some stores are connected by now, and a connection that nobody knows of would keep the process alive.
    await backend.close().catch(() => undefined)
    throw error
  }
}

/** The store of a URL, not opened yet: for those who make more of it than locks. */
export function openBackend(): Promise<Backend>
export function openBackend(url: string, options?: OpenOptions): Promise<Backend>
export async function openBackend(...args: [url?: string, options?: OpenOptions]): Promise<Backend> {
  const [, options = {}] = args
  const url = urlGiven(args)
  const { found: opener, rest } = readUrl(url, OPENERS)
  // Its driver and its connections serve every caller, and outlive the request that happens to be the first.
  const backend = await asyncContexts.outside(() => opener(rest, url, options))
  const identity = identityOfUrl(url)
  // Neither printed nor copied with the rest of it: nobody but the process itself can make anything of it.
  return identity === null ? backend : Object.defineProperty(backend, 'identity', { value: identity })
}

async function openMemory(name: string): Promise<Backend> {
  const { memoryBackend, memoryStore } = await import('../backends/memory/backend.js')
  return name === '' ? memoryBackend() : memoryBackend(memoryStore(name))
}

async function openSqlite(rest: string, _url: string, { servesMany }: OpenOptions): Promise<Backend> {
  const { sqliteBackend } = await import('../backends/sqlite/backend.js')
  return sqliteBackend({ path: sqlitePath(rest), together: servesMany })
}

async function openRedisUrl(_rest: string, url: string): Promise<Backend> {
  const { openRedis } = await import('../backends/redis/open.js')
  return await openRedis(url)
}

async function openPostgresUrl(_rest: string, url: string): Promise<Backend> {
  const { openPostgres } = await import('../backends/postgres/open.js')
  return await openPostgres(url)
}

async function openMysqlUrl(_rest: string, url: string): Promise<Backend> {
  const { openMysql } = await import('../backends/mysql/open.js')
  return await openMysql(url)
}

async function openMemcachedUrl(_rest: string, url: string): Promise<Backend> {
  const { openMemcached } = await import('../backends/memcached/open.js')
  return await openMemcached(url)
}

async function openZookeeperUrl(_rest: string, url: string): Promise<Backend> {
  const { openZookeeper } = await import('../backends/zookeeper/open.js')
  return await openZookeeper(url)
}

async function openEtcdUrl(_rest: string, url: string): Promise<Backend> {
  const { openEtcd } = await import('../backends/etcd/open.js')
  return await openEtcd(url)
}

async function openConsulUrl(_rest: string, url: string): Promise<Backend> {
  const { openConsul } = await import('../backends/consul/open.js')
  return await openConsul(url)
}

async function openHttpUrl(_rest: string, url: string): Promise<Backend> {
  const { openRemote } = await import('../backends/http/open.js')
  return await openRemote(url)
}
