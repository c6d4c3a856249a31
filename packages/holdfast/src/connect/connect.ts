import { createLocks, type Locks } from '../client/client.js'
import type { Backend } from '../core/backend.js'
import { InvalidInputError, UnsupportedError } from '../core/errors.js'
import { hasControl } from '../core/names.js'
import type { ClientOptions } from '../core/options.js'
import { defaultDatabasePath } from './default-path.js'

/** Long enough for any path and any set of hosts; an address beyond it is a mistake. */
const URL_LENGTH_MAX = 4_096

type Opener = (rest: string) => Promise<Backend>

/** Stores are loaded when they are asked for, so that a program pays only for the one it uses. */
const OPENERS: ReadonlyMap<string, Opener> = new Map<string, Opener>([
  ['memory', openMemory],
  ['sqlite', openSqlite],
])

/**
 * Opens the locks of a store.
 *
 *     memory:            a store of its own inside this process; `memory:NAME` is shared by name
 *     sqlite:            the per-user default file; `sqlite:PATH` another one
 *
 * Without a URL it is `sqlite:`, which several processes of one machine can share with nothing to install or start.
 */
export async function connect(url = 'sqlite:', options: ClientOptions = {}): Promise<Locks> {
  checkUrl(url)
  const colon = url.indexOf(':')
  const scheme = url.slice(0, Math.max(0, colon)).toLowerCase()
  const opener = OPENERS.get(scheme)
  if (opener === undefined) {
    const known = [...OPENERS.keys()].map((name) => `${name}:`).join(', ')
    // The rest of the URL may carry a password, so only the scheme is repeated.
    const got = colon < 0 ? 'a text without a scheme' : `the scheme ${JSON.stringify(scheme.slice(0, 40))}`
    throw new UnsupportedError(`Expected \`url\` to begin with one of ${known}; got ${got}.`)
  }
  return await createLocks(await opener(url.slice(colon + 1)), options)
}

/** Nothing of it is repeated in a message but its length, because it may carry a password. */
function checkUrl(url: unknown): void {
  if (typeof url !== 'string') throw new InvalidInputError('url', 'a store URL', url)
  if (url.length > URL_LENGTH_MAX) {
    throw new InvalidInputError('url', `a text of at most ${URL_LENGTH_MAX} characters`, url.length)
  }
  if (hasControl(url) || !url.isWellFormed()) {
    throw new InvalidInputError('url', 'a text without control characters and lone surrogates', url.length)
  }
}

async function openMemory(name: string): Promise<Backend> {
  const { memoryBackend, memoryStore } = await import('../backends/memory/backend.js')
  return name === '' ? memoryBackend() : memoryBackend(memoryStore(name))
}

async function openSqlite(rest: string): Promise<Backend> {
  const { sqliteBackend } = await import('../backends/sqlite/backend.js')
  return sqliteBackend({ path: pathOf(rest) })
}

/** `sqlite:relative/file`, `sqlite:/absolute/file` and `sqlite:///absolute/file` all mean what they look like. */
function pathOf(rest: string): string {
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
