/** Locks in memcached, by one of two recipes. */

import type { Backend } from '../../core/backend.js'
import { InvalidInputError, UnsupportedError } from '../../core/errors.js'
import { hasControl } from '../../core/names.js'
import { checkBoolean, checkInteger, checkKeys, checkMs } from '../../core/options.js'
import { ADD_GUARANTEES } from './add.js'
import { type MemcachedAddress, MemcachedClient } from './client.js'
import { Items } from './items.js'
import { checkPrefix, Keys } from './keys.js'
import { LineBackend } from './line-backend.js'
import { Lines } from './lines.js'
import { RECORD_GUARANTEES } from './record.js'

export type MemcachedRecipe = 'record' | 'add'

export interface MemcachedOptions extends RecipeOptions {
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly username?: string | undefined
  readonly password?: string | undefined
  /** Whether to speak TLS. Default false. */
  readonly tls?: boolean | undefined
  /** The text of the certificate to trust, with TLS; the system's unless given. */
  readonly ca?: string | undefined
}

export interface RecipeOptions {
  /** `record`, the default: a fair line in one item, with shared and weighted claims. `add`: whoever is first. */
  readonly recipe?: MemcachedRecipe | undefined
  /** What the keys begin with. Default `holdfast:`. */
  readonly prefix?: string | undefined
  /** Whether the name of a lock is its key as it is, without the prefix. Default false. */
  readonly exactPath?: boolean | undefined
  /** How long the server may take for an answer before the connection is given up. Default 5,000. */
  readonly requestMs?: number | undefined
}

const RECIPE_KEYS: readonly string[] = ['recipe', 'prefix', 'exactPath', 'requestMs']
const ADDRESS_KEYS: readonly string[] = ['host', 'port', 'username', 'password', 'tls', 'ca']
export const REQUEST_MS = 5_000
export const DEFAULT_PORT = 11_211
export const DEFAULT_PREFIX = 'holdfast:'

export function memcachedBackend(options: MemcachedOptions = {}): Backend {
  const { address, rest } = addressIn(options, RECIPE_KEYS)
  return backendAt(address, rest)
}

/** The server that the options name, checked, and what else they say. `others` are the options beside the address. */
export function addressIn(
  options: MemcachedOptions,
  others: readonly string[],
): { readonly address: MemcachedAddress; readonly rest: RecipeOptions } {
  checkKeys(options, [...ADDRESS_KEYS, ...others])
  const { host = 'localhost', port = DEFAULT_PORT, username, password, tls = false, ca, ...rest } = options
  checkHost(host)
  checkInteger(port, 'port', 1, 65_535)
  checkBoolean(tls, 'tls')
  for (const [what, value] of [
    ['username', username],
    ['password', password],
  ] as const) {
    const isUsable = value === undefined || (typeof value === 'string' && !hasControl(value))
    if (!isUsable) throw new InvalidInputError(what, 'a text without control characters', typeof value)
  }
  if (ca !== undefined && (typeof ca !== 'string' || !tls)) {
    throw new InvalidInputError('ca', 'the text of a certificate, together with `tls`', typeof ca)
  }
  return { address: { host, port, username, password, tls, ca }, rest }
}

function checkHost(host: unknown): void {
  if (Array.isArray(host) || (typeof host === 'string' && host.includes(','))) throw severalHosts()
  if (typeof host !== 'string' || host === '' || hasControl(host)) {
    throw new InvalidInputError('host', 'the name or the address of one server', host)
  }
}

/** Which of several servers has a key is something that all clients must agree on, and a lock would move when one is gone. */
export function severalHosts(): UnsupportedError {
  return new UnsupportedError(
    'Locks in memcached are on one server. Keys spread over several would move, and be held twice, when one is gone.',
    { backend: 'memcached' },
  )
}

export function backendAt(address: MemcachedAddress, options: RecipeOptions): Backend {
  checkKeys(options, RECIPE_KEYS)
  const recipe = options.recipe ?? 'record'
  if (recipe !== 'record' && recipe !== 'add') {
    throw new InvalidInputError('recipe', "'record' or 'add'", recipe)
  }
  const prefix = checkPrefix(options.prefix ?? DEFAULT_PREFIX)
  const exactPath = checkBoolean(options.exactPath ?? false, 'exactPath')
  const requestMs = checkMs(options.requestMs ?? REQUEST_MS, 'requestMs', 1)
  const client = new MemcachedClient(address, { requestMs })
  const keys = new Keys({ prefix, exactPath })
  const lines = new Lines(recipe, new Items(client), keys, requestMs)
  const declared = recipe === 'record' ? RECORD_GUARANTEES : ADD_GUARANTEES
  return new LineBackend(client, lines, { ...declared, nameBytesMax: keys.nameBytesMax })
}
