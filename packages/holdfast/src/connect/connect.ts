import { createLocks, type Locks } from '../client/client.js'
import type { Backend } from '../core/backend.js'
import type { ClientOptions } from '../core/options.js'
import { type ForEachStore, readUrl, sqlitePath } from './url.js'

type Opener = (rest: string, url: string) => Promise<Backend>

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
 *
 * Without a URL it is `sqlite:`, which several processes of one machine can share with nothing to install or start.
 */
export async function connect(url = 'sqlite:', options: ClientOptions = {}): Promise<Locks> {
  const { found: opener, rest } = readUrl(url, OPENERS)
  return await createLocks(await opener(rest, url), options)
}

async function openMemory(name: string): Promise<Backend> {
  const { memoryBackend, memoryStore } = await import('../backends/memory/backend.js')
  return name === '' ? memoryBackend() : memoryBackend(memoryStore(name))
}

async function openSqlite(rest: string): Promise<Backend> {
  const { sqliteBackend } = await import('../backends/sqlite/backend.js')
  return sqliteBackend({ path: sqlitePath(rest) })
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
