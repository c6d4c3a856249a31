/** What every URL of a store has in common, for all who take one. */

import { InvalidInputError, UnsupportedError } from '../core/errors.js'
import { hasControl } from '../core/names.js'
import { defaultDatabasePath } from './default-path.js'

/** Long enough for any path and any set of hosts; an address beyond it is a mistake. */
const URL_LENGTH_MAX = 4_096

/** Every scheme, and the kind of store that it leads to. */
const STORES = new Map([
  ['memory', 'memory'],
  ['sqlite', 'sqlite'],
  ['redis', 'redis'],
  ['rediss', 'redis'],
  ['redis+sentinel', 'redis'],
  ['rediss+sentinel', 'redis'],
  ['redis+cluster', 'redis'],
  ['rediss+cluster', 'redis'],
  ['redis+redlock', 'redis'],
  ['rediss+redlock', 'redis'],
  ['postgres', 'postgres'],
  ['postgresql', 'postgres'],
  ['mysql', 'mysql'],
  ['mariadb', 'mysql'],
  ['consul', 'consul'],
  ['consuls', 'consul'],
  ['etcd', 'etcd'],
  ['etcds', 'etcd'],
  ['zookeeper', 'zookeeper'],
  ['zookeepers', 'zookeeper'],
  ['memcached', 'memcached'],
  ['memcacheds', 'memcached'],
  ['http', 'http'],
  ['https', 'http'],
] as const)

type Entry = typeof STORES extends ReadonlyMap<infer Scheme, infer Store> ? readonly [Scheme, Store] : never

/** Something for each kind of store, so that none can be forgotten. */
export type ForEachStore<T> = Readonly<Record<Entry[1], T>>

/** What belongs to the store of a URL, and the rest of the URL behind the colon. */
export function readUrl<T>(
  url: string,
  stores: ForEachStore<T>,
): { readonly found: T; readonly rest: string } {
  checkUrl(url)
  const colon = url.indexOf(':')
  const scheme = url.slice(0, Math.max(0, colon)).toLowerCase()
  const store = STORES.get(scheme as Entry[0])
  if (store === undefined) {
    const known = [...STORES.keys()].map((name) => `${name}:`).join(', ')
    // The rest of the URL may carry a password, so only the scheme is repeated.
    const got = colon < 0 ? 'a text without a scheme' : `the scheme ${JSON.stringify(scheme.slice(0, 40))}`
    throw new UnsupportedError(`Expected \`url\` to begin with one of ${known}; got ${got}.`)
  }
  return { found: stores[store], rest: url.slice(colon + 1) }
}

/** Where to find the locks of a caller that names no store: a file that all processes of the user share. */
const DEFAULT_URL = 'sqlite:'

/**
 * The URL of a call. Only a call without any argument means the default: a URL that is undefined, null or empty comes from
 * a variable that is not set, and a file of this machine in its place would lock nothing for the other machines.
 */
export function urlGiven(args: readonly [url?: string, ...rest: unknown[]]): string {
  // The type is that of a caller that keeps to it; `readUrl` checks what was really given.
  return args.length === 0 ? DEFAULT_URL : (args[0] as string)
}

/** Nothing of it is repeated in a message but its length, because it may carry a password. */
function checkUrl(url: unknown): void {
  if (url === undefined || url === null || url === '') {
    const expected =
      'a store URL such as `redis://cache-1:6379` (check the variable that it comes from; only a call without a URL means ' +
      'the SQLite file of this user)'
    throw new InvalidInputError('url', expected, url)
  }
  if (typeof url !== 'string') throw new InvalidInputError('url', 'a store URL', url)
  if (url.length > URL_LENGTH_MAX) {
    throw new InvalidInputError('url', `a text of at most ${URL_LENGTH_MAX} characters`, url.length)
  }
  if (hasControl(url) || !url.isWellFormed()) {
    throw new InvalidInputError('url', 'a text without control characters and lone surrogates', url.length)
  }
}

/** `sqlite:relative/file`, `sqlite:/absolute/file` and `sqlite:///absolute/file` all mean what they look like. */
export function sqlitePath(rest: string): string {
  if (rest === '' || rest === '//') return defaultDatabasePath()
  const path = decoded(rest.startsWith('//') ? rest.slice(2) : rest)
  if (hasControl(path)) throw new InvalidInputError('url', 'a path without control characters', path.length)
  return path
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    throw new InvalidInputError(
      'url',
      'a path whose percent signs are escapes (%25 for a plain one)',
      path.length,
    )
  }
}
