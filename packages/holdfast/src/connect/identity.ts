/** Which store a URL leads to, for those who must tell two stores of one kind apart. */

import { hash } from 'node:crypto'
import { resolve } from 'node:path'
import { hostOf, splitUrl } from '../core/address.js'
import { type ForEachStore, readUrl, sqlitePath } from './url.js'

/** What is left out of a URL stands for something, and a URL that says it leads to the same store. */
interface Defaults {
  port(scheme: string): number
  path(path: string): string
}

const READERS: ForEachStore<(rest: string, url: string) => unknown> = {
  // Its backends know by themselves which of them share a store.
  memory: () => null,
  sqlite: (rest) => ['sqlite', resolve(sqlitePath(rest))],
  redis: ofServer('redis', {
    port: (scheme) => (scheme.endsWith('+sentinel') ? 26_379 : 6_379),
    path: (path) => path.replace(/^\/|\/$/g, '') || '0',
  }),
  postgres: ofServer('postgres', { port: () => 5_432, path: (path) => path.slice(1) || 'postgres' }),
  mysql: ofServer('mysql', { port: () => 3_306, path: (path) => path.slice(1) || 'holdfast' }),
  consul: ofServer('consul', { port: () => 8_500, path: (path) => path.slice(1) }),
  etcd: ofServer('etcd', { port: () => 2_379, path: (path) => path.slice(1) }),
  zookeeper: ofServer('zookeeper', {
    port: (scheme) => (scheme === 'zookeepers' ? 2_281 : 2_181),
    path: (path) => path || '/holdfast',
  }),
  memcached: ofServer('memcached', { port: () => 11_211, path: (path) => path.slice(1) }),
  http: ofServer('http', { port: () => 4_600, path: (path) => path.slice(1) }),
}

/**
 * The options that lead to other locks of the same server. All others are left out, and so are the user and the password:
 * with any of them the locks are the same, and some are secrets.
 */
const OPTIONS: readonly string[] = ['recipe', 'prefix', 'tablePrefix', 'names', 'exactPath', 'dc']

/**
 * The same text for URLs that plainly lead to the same locks, and different ones for all that lead elsewhere; null where
 * the URL does not say it. It is a digest, because it is for comparing and not for reading.
 */
export function identityOfUrl(url: string): string | null {
  const { found: reader, rest } = readUrl(url, READERS)
  const read = reader(rest, url)
  return read === null ? null : hash('sha256', JSON.stringify(read), 'hex')
}

function ofServer(kind: string, defaults: Defaults): (rest: string, url: string) => unknown {
  return (_rest, url) => {
    const parts = splitUrl(url)
    if (parts === null) return null
    const { scheme, authority, path, options } = parts
    const hosts = authority.split(',').map((text) => {
      const { host, port } = hostOf(text, defaults.port(scheme))
      // A host can be the path of a socket, where upper and lower case are not the same.
      return [host.includes('/') ? host : host.toLowerCase(), port].join(' ')
    })
    return [
      kind,
      // With or without TLS it is the same server, but what stands behind a plus sign is another set of servers.
      scheme.split('+')[1] ?? '',
      hosts.toSorted(),
      defaults.path(path),
      OPTIONS.map((name) => options.get(name) ?? null),
    ]
  }
}
