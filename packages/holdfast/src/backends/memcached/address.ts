/**
 * The URLs of memcached: `memcached://[user:password@]host[:port]`, and `memcacheds:` for the same over TLS, with options
 * behind a question mark. Nothing of a URL but the name of an option is ever repeated in a message, because it may carry a
 * password.
 */

import { hostOf, splitUrl } from '../../core/address.js'
import { InvalidInputError } from '../../core/errors.js'
import { DEFAULT_PORT, severalHosts } from './backend.js'
import type { MemcachedAddress } from './client.js'

export interface MemcachedUrl extends MemcachedAddress {
  readonly options: ReadonlyMap<string, string>
}

export function parseMemcachedUrl(url: string): MemcachedUrl {
  const parts = splitUrl(url)
  if (parts === null || (parts.scheme !== 'memcached' && parts.scheme !== 'memcacheds')) {
    throw new InvalidInputError('url', 'like `memcached://host:port`', url.length)
  }
  if (parts.authority.includes(',')) throw severalHosts()
  if (parts.path !== '' && parts.path !== '/') {
    throw new InvalidInputError('url', 'without a path', parts.path.length)
  }
  const { host, port } = hostOf(parts.authority, DEFAULT_PORT)
  return { host, port, ...parts.credentials, tls: parts.scheme === 'memcacheds', options: parts.options }
}
