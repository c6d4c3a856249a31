/**
 * The URLs of the lock service:
 *
 *     http://[token@]host[:port][,host2…]        https: the same over TLS
 *
 * with options behind a question mark. `tokenFile` is the path of a file that has the token, which does not show in a list
 * of processes; without either it is in the variable `HOLDFAST_TOKEN`, if at all. `ca` is the path of the certificate to
 * trust.
 */

import { env } from 'node:process'
import { type HostAndPort, hostOf, splitUrl } from '../../core/address.js'
import { InvalidInputError } from '../../core/errors.js'
import { checkToken, optionsFrom, readCa, tokenIn } from '../shared/opening.js'
import type { ServiceAccess } from './client.js'

export interface ServiceAddress {
  readonly hosts: readonly HostAndPort[]
  readonly isSecure: boolean
  /** The token that stands in the URL itself. */
  readonly token: string | null
  readonly options: ReadonlyMap<string, string>
}

export const SERVICE_PORT = 4_600

const SCHEMES: readonly string[] = ['http', 'https']
const OWN_OPTIONS: readonly string[] = ['tokenFile', 'ca']

export function parseServiceUrl(url: string): ServiceAddress {
  const parts = splitUrl(url)
  if (parts === null || !SCHEMES.includes(parts.scheme) || !/^\/?$/.test(parts.path)) {
    throw new InvalidInputError('url', `like \`http://host:${SERVICE_PORT}\`, with no path`, url.length)
  }
  const { username, password } = parts.credentials
  if (password !== undefined) {
    throw new InvalidInputError('url', 'with a token before the `@`, and no password behind it', url.length)
  }
  optionsFrom(parts.options, new Map(), OWN_OPTIONS)
  return {
    hosts: parts.authority.split(',').map((host) => hostOf(host, SERVICE_PORT)),
    isSecure: parts.scheme === 'https',
    token: username === undefined ? null : checkToken(username),
    options: parts.options,
  }
}

export async function accessOf({ hosts, isSecure, token, options }: ServiceAddress): Promise<ServiceAccess> {
  const ca = options.get('ca')
  if (ca !== undefined && !isSecure) {
    throw new InvalidInputError('ca', 'left out, or the scheme to be `https:`', ca)
  }
  if (token !== null && options.has('tokenFile')) {
    throw new InvalidInputError('tokenFile', 'left out beside a token in the URL', options.get('tokenFile'))
  }
  return {
    hosts,
    tls: isSecure ? (ca === undefined ? {} : { ca: await readCa(ca, 'http') }) : null,
    token: token ?? (await tokenIn(options, 'http')) ?? tokenOfEnvironment(),
  }
}

/** An empty variable is none. */
export function tokenOfEnvironment(): string | null {
  const token = env['HOLDFAST_TOKEN']
  return token === undefined || token === '' ? null : checkToken(token)
}
