/**
 * The URLs of Redis:
 *
 *     redis://[user[:password]@]host[:port][/database]           rediss:// is the same over TLS
 *     redis+sentinel://[user[:password]@]host:port,…/master[/database]
 *     redis+cluster://[user[:password]@]host:port,…
 *     redis+redlock://[user[:password]@]host:port,…
 *
 * with options behind a question mark. Nothing of a URL but the name of an option is ever repeated in a message, because
 * it may carry a password.
 */

import { decoded, type HostAndPort, hostOf, splitUrl } from '../../core/address.js'
import { InvalidInputError } from '../../core/errors.js'

export type Topology = 'single' | 'sentinel' | 'cluster' | 'redlock'

export interface RedisAddress {
  readonly topology: Topology
  readonly tls: boolean
  readonly hosts: readonly [HostAndPort, ...HostAndPort[]]
  readonly username: string | undefined
  readonly password: string | undefined
  readonly database: number
  /** What Sentinel calls the group of servers. */
  readonly masterName: string
  readonly options: ReadonlyMap<string, string>
}

const SCHEMES: ReadonlyMap<string, { readonly topology: Topology; readonly tls: boolean }> = new Map([
  ['redis', { topology: 'single', tls: false }],
  ['rediss', { topology: 'single', tls: true }],
  ['redis+sentinel', { topology: 'sentinel', tls: false }],
  ['rediss+sentinel', { topology: 'sentinel', tls: true }],
  ['redis+cluster', { topology: 'cluster', tls: false }],
  ['rediss+cluster', { topology: 'cluster', tls: true }],
  ['redis+redlock', { topology: 'redlock', tls: false }],
  ['rediss+redlock', { topology: 'redlock', tls: true }],
])

export const REDIS_SCHEMES: readonly string[] = [...SCHEMES.keys()]

const DEFAULT_PORT = 6_379
const SENTINEL_PORT = 26_379
const DATABASE_MAX = 65_535

export function parseRedisUrl(url: string): RedisAddress {
  const parts = splitUrl(url)
  const scheme = SCHEMES.get(parts?.scheme ?? '')
  if (parts === null || scheme === undefined) {
    throw new InvalidInputError('url', 'like `redis://host:port`', url.length)
  }
  const { topology, tls } = scheme
  const { masterName, database } = pathOf(topology, parts.path)
  return {
    topology,
    tls,
    hosts: hostsOf(parts.authority, topology),
    ...parts.credentials,
    database,
    masterName,
    options: parts.options,
  }
}

function hostsOf(authority: string, topology: Topology): RedisAddress['hosts'] {
  const port = topology === 'sentinel' ? SENTINEL_PORT : DEFAULT_PORT
  const [first, ...rest] = authority.split(',').map((text) => hostOf(text, port))
  if (first === undefined || (topology === 'single' && rest.length > 0)) {
    throw new InvalidInputError('url', 'one host; `redis+cluster:` and others take several', rest.length + 1)
  }
  return [first, ...rest]
}

function pathOf(topology: Topology, path: string): { masterName: string; database: number } {
  const parts = path.split('/').slice(1).map(decoded)
  if (parts.at(-1) === '') parts.pop()
  const masterName = topology === 'sentinel' ? (parts.shift() ?? '') : ''
  if (topology === 'sentinel' && masterName === '') {
    throw new InvalidInputError(
      'url',
      'like `redis+sentinel://host:port,host:port/name-of-the-master`',
      path.length,
    )
  }
  const [database = '0', ...rest] = parts
  const takesDatabase = topology !== 'cluster' || database === '0'
  if (!/^\d{1,5}$/.test(database) || Number(database) > DATABASE_MAX || rest.length > 0 || !takesDatabase) {
    throw new InvalidInputError('url', 'with nothing but the number of a database as its path', path.length)
  }
  return { masterName, database: Number(database) }
}
