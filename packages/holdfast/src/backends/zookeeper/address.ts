/**
 * The URLs of ZooKeeper:
 *
 *     zookeeper://[user:password@]host[:port],host[:port]/base/path      zookeepers:// is the same over TLS
 *
 * with options behind a question mark. A user and a password are shown to the server as `digest`.
 */

import { decoded, type HostAndPort, hostOf, splitUrl } from '../../core/address.js'
import { InvalidInputError } from '../../core/errors.js'

export interface ZookeeperAddress {
  readonly tls: boolean
  readonly hosts: readonly [HostAndPort, ...HostAndPort[]]
  /** `user:password`; null where there is none. */
  readonly digest: string | null
  readonly base: string
  readonly options: ReadonlyMap<string, string>
}

const DEFAULT_PORT = 2_181
/** The port that servers usually offer TLS on. */
const DEFAULT_TLS_PORT = 2_281

export function parseZookeeperUrl(url: string): ZookeeperAddress {
  const parts = splitUrl(url)
  if (parts === null || (parts.scheme !== 'zookeeper' && parts.scheme !== 'zookeepers')) {
    throw new InvalidInputError('url', 'like `zookeeper://host:2181,host:2181/locks`', url.length)
  }
  const tls = parts.scheme === 'zookeepers'
  const port = tls ? DEFAULT_TLS_PORT : DEFAULT_PORT
  const [first, ...rest] = parts.authority.split(',').map((text) => hostOf(text, port))
  const { username, password } = parts.credentials
  if ((username === undefined) !== (password === undefined)) {
    throw new InvalidInputError('url', 'with both a user and a password, or with neither', url.length)
  }
  return {
    tls,
    hosts: [first as HostAndPort, ...rest],
    digest: username === undefined ? null : `${username}:${password}`,
    base: decoded(parts.path),
    options: parts.options,
  }
}
