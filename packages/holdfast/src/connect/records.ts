import { asyncContexts } from '../core/async-context.js'
import type { RecordStore } from '../core/records.js'
import { createIdempotency, type Idempotency } from '../idempotency/idempotency.js'
import type { IdempotencyOptions } from '../idempotency/types.js'
import { type ForEachStore, readUrl, sqlitePath, urlGiven } from './url.js'

type Opener = (rest: string, url: string) => Promise<RecordStore>

/** Like the locks of a store, its records are loaded when they are asked for. */
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

/** The records of a store, by the URLs of `connect()`. They are opened by whoever uses them. */
export function connectRecords(): Promise<RecordStore>
export function connectRecords(url: string): Promise<RecordStore>
export async function connectRecords(...args: [url?: string]): Promise<RecordStore> {
  const url = urlGiven(args)
  const { found: opener, rest } = readUrl(url, OPENERS)
  // Its driver and its connections serve every caller, and outlive the request that happens to be the first.
  return await asyncContexts.outside(() => opener(rest, url))
}

/** Opens idempotency over the store of a URL; the same URLs, and the same default, as for `connect()`. */
export function connectIdempotency(): Promise<Idempotency>
export function connectIdempotency(url: string, options?: IdempotencyOptions): Promise<Idempotency>
export async function connectIdempotency(
  ...args: [url?: string, options?: IdempotencyOptions]
): Promise<Idempotency> {
  const [, options = {}] = args
  return await createIdempotency(await connectRecords(urlGiven(args)), options)
}

async function openMemory(name: string): Promise<RecordStore> {
  const { memoryRecords } = await import('../backends/memory/records.js')
  return name === '' ? memoryRecords() : memoryRecords(name)
}

async function openSqlite(rest: string): Promise<RecordStore> {
  const { sqliteRecords } = await import('../backends/sqlite/records.js')
  return sqliteRecords({ path: sqlitePath(rest) })
}

async function openRedisUrl(_rest: string, url: string): Promise<RecordStore> {
  const { openRedisRecords } = await import('../backends/redis/open-records.js')
  return await openRedisRecords(url)
}

async function openPostgresUrl(_rest: string, url: string): Promise<RecordStore> {
  const { openPostgresRecords } = await import('../backends/postgres/open-records.js')
  return await openPostgresRecords(url)
}

async function openMysqlUrl(_rest: string, url: string): Promise<RecordStore> {
  const { openMysqlRecords } = await import('../backends/mysql/open-records.js')
  return await openMysqlRecords(url)
}

async function openEtcdUrl(_rest: string, url: string): Promise<RecordStore> {
  const { openEtcdRecords } = await import('../backends/etcd/open-records.js')
  return await openEtcdRecords(url)
}

async function openConsulUrl(_rest: string, url: string): Promise<RecordStore> {
  const { openConsulRecords } = await import('../backends/consul/open-records.js')
  return await openConsulRecords(url)
}

async function openZookeeperUrl(_rest: string, url: string): Promise<RecordStore> {
  const { openZookeeperRecords } = await import('../backends/zookeeper/open-records.js')
  return await openZookeeperRecords(url)
}

async function openMemcachedUrl(_rest: string, url: string): Promise<RecordStore> {
  const { openMemcachedRecords } = await import('../backends/memcached/open-records.js')
  return await openMemcachedRecords(url)
}

async function openHttpUrl(_rest: string, url: string): Promise<RecordStore> {
  const { openRemoteRecords } = await import('../backends/http/open-records.js')
  return await openRemoteRecords(url)
}
