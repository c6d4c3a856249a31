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

import { InvalidInputError } from '../../core/errors.js'

export type Topology = 'single' | 'sentinel' | 'cluster' | 'redlock'

export interface HostAndPort {
  readonly host: string
  readonly port: number
}

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
  const parts = /^([a-z+]+):\/\/(?:([^@/?#]*)@)?([^/?#]*)(\/[^?#]*)?(?:\?([^#]*))?$/i.exec(url)
  const scheme = SCHEMES.get(parts?.[1]?.toLowerCase() ?? '')
  if (parts === null || scheme === undefined) {
    throw new InvalidInputError('url', 'like `redis://host:port`', url.length)
  }
  const [, , credentials, authority = '', path = '', query = ''] = parts
  const { topology, tls } = scheme
  const { masterName, database } = pathOf(topology, path)
  return {
    topology,
    tls,
    hosts: hostsOf(authority, topology),
    ...credentialsOf(credentials),
    database,
    masterName,
    options: optionsOf(query),
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

/** A name or a number with an optional port; an IPv6 address stands in brackets. */
function hostOf(text: string, defaultPort: number): HostAndPort {
  const parts = /^(?:\[([0-9a-f:.]+)\]|([^@:[\]\s]*))(?::(\d{1,5}))?$/i.exec(text)
  const port = parts?.[3] === undefined ? defaultPort : Number(parts[3])
  if (parts === null || port < 1 || port > 65_535) {
    throw new InvalidInputError('url', 'hosts like `name:6379` with commas between them', text.length)
  }
  return { host: parts[1] ?? (decoded(parts[2] ?? '') || 'localhost'), port }
}

function credentialsOf(text: string | undefined): Pick<RedisAddress, 'username' | 'password'> {
  if (text === undefined || text === '') return { username: undefined, password: undefined }
  const colon = text.indexOf(':')
  const username = decoded(colon < 0 ? text : text.slice(0, colon))
  const password = colon < 0 ? undefined : decoded(text.slice(colon + 1))
  return { username: username === '' ? undefined : username, password }
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

function optionsOf(query: string): ReadonlyMap<string, string> {
  const options = new Map<string, string>()
  for (const pair of query.split('&')) {
    if (pair === '') continue
    const equals = pair.indexOf('=')
    const name = decoded(equals < 0 ? pair : pair.slice(0, equals))
    if (options.has(name)) throw new InvalidInputError('url', 'with each option once', shownOption(name))
    options.set(name, equals < 0 ? '' : decoded(pair.slice(equals + 1)))
  }
  return options
}

/** What is written like an option is shown; anything else may be the rest of a password that was not escaped. */
export function shownOption(name: string): string | number {
  return /^[a-z]{1,20}$/i.test(name) ? name : name.length
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new InvalidInputError(
      'url',
      'a text whose percent signs are escapes (%25 for a plain one)',
      text.length,
    )
  }
}
