/**
 * The URLs of etcd:
 *
 *     etcd://[user[:password]@]host[:port][,host[:port]…][/prefix]          etcds:// is the same over TLS
 *
 * with options behind a question mark.
 */

import { type Credentials, decoded, hostOf, splitUrl } from '../../core/address.js'
import { InvalidInputError } from '../../core/errors.js'
import { checkBase } from '../shared/names.js'

export interface EtcdAddress extends Credentials {
  readonly tls: boolean
  /** `host:port`, with brackets around an IPv6 address. */
  readonly endpoints: readonly [string, ...string[]]
  readonly hosts: readonly string[]
  /** What all keys begin with, from the path. */
  readonly prefix: string
  readonly options: ReadonlyMap<string, string>
}

const DEFAULT_PORT = 2_379
const SCHEMES: ReadonlySet<string> = new Set(['etcd', 'etcds'])

export function parseEtcdUrl(url: string): EtcdAddress {
  const parts = splitUrl(url)
  if (parts === null || !SCHEMES.has(parts.scheme)) {
    throw new InvalidInputError('url', `like \`etcd://host:${DEFAULT_PORT}\``, url.length)
  }
  const hosts = parts.authority.split(',').map((text) => hostOf(text, DEFAULT_PORT))
  const endpoints = hosts.map(({ host, port }) =>
    host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`,
  )
  const base = checkBase(decoded(parts.path), 'url')
  return {
    tls: parts.scheme === 'etcds',
    ...parts.credentials,
    endpoints: endpoints as [string, ...string[]],
    hosts: hosts.map(({ host }) => host),
    prefix: base.length === 0 ? '' : `${base.join('/')}/`,
    options: parts.options,
  }
}
