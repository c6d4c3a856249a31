import { systemRuntime } from '../client/system.js'
import type { Finding } from '../core/doctor.js'
import { type ForEachStore, readUrl, sqlitePath, urlGiven } from './url.js'

type Examiner = (rest: string, url: string) => Promise<Finding[]>

/** Like the stores themselves, their examiners are loaded when they are asked for. */
const EXAMINERS: ForEachStore<Examiner> = {
  memory: examineMemory,
  sqlite: examineSqliteUrl,
  redis: examineRedisUrl,
  postgres: examinePostgresUrl,
  mysql: examineMysqlUrl,
  consul: examineConsulUrl,
  etcd: examineEtcdUrl,
  zookeeper: examineZookeeperUrl,
  memcached: examineMemcachedUrl,
  http: examineHttpUrl,
}

/**
 * Looks for what would break locks in how a store is set up, and says what to do about it. It takes the URLs of
 * `connect()`, changes nothing and touches no lock. It rejects where the store does not answer at all.
 */
export function examine(): Promise<Finding[]>
export function examine(url: string): Promise<Finding[]>
export async function examine(...args: [url?: string]): Promise<Finding[]> {
  const url = urlGiven(args)
  const { found: examiner, rest } = readUrl(url, EXAMINERS)
  return await examiner(rest, url)
}

async function examineMemory(): Promise<Finding[]> {
  return [
    {
      level: 'note',
      check: 'scope',
      found: 'only callers within one process exclude each other, and its end frees everything',
      advice: 'Between processes use `sqlite:`, between machines a store that is a server.',
    },
  ]
}

async function examineSqliteUrl(rest: string): Promise<Finding[]> {
  const { examineSqlite } = await import('../backends/sqlite/doctor.js')
  return await examineSqlite(sqlitePath(rest))
}

async function examineRedisUrl(_rest: string, url: string): Promise<Finding[]> {
  const { examineRedisUrl: examineAt } = await import('../backends/redis/doctor.js')
  return await examineAt(url, systemRuntime)
}

async function examinePostgresUrl(_rest: string, url: string): Promise<Finding[]> {
  const { examinePostgresUrl: examineAt } = await import('../backends/postgres/doctor.js')
  return await examineAt(url, systemRuntime)
}

async function examineMysqlUrl(_rest: string, url: string): Promise<Finding[]> {
  const { examineMysqlUrl: examineAt } = await import('../backends/mysql/doctor.js')
  return await examineAt(url, systemRuntime)
}

async function examineMemcachedUrl(_rest: string, url: string): Promise<Finding[]> {
  const { examineMemcachedUrl: examineAt } = await import('../backends/memcached/doctor.js')
  return await examineAt(url, systemRuntime)
}

async function examineConsulUrl(_rest: string, url: string): Promise<Finding[]> {
  const { examineConsulUrl: examineAt } = await import('../backends/consul/doctor.js')
  return await examineAt(url, systemRuntime)
}

async function examineEtcdUrl(_rest: string, url: string): Promise<Finding[]> {
  const { examineEtcdUrl: examineAt } = await import('../backends/etcd/doctor.js')
  return await examineAt(url, systemRuntime)
}

async function examineZookeeperUrl(_rest: string, url: string): Promise<Finding[]> {
  const { examineZookeeperUrl: examineAt } = await import('../backends/zookeeper/doctor.js')
  return await examineAt(url, systemRuntime)
}

async function examineHttpUrl(_rest: string, url: string): Promise<Finding[]> {
  const { examineRemoteUrl } = await import('../backends/http/doctor.js')
  return await examineRemoteUrl(url, systemRuntime)
}
