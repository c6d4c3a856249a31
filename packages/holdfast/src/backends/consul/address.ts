/**
 * The URLs of Consul:
 *
 *     consul://host[:port][,host2…][/prefix]        consuls: the same over TLS
 *
 * with options behind a question mark. `token` is the ACL token; `tokenFile` the path of a file that has it, which does not
 * show in a list of processes. `dc` is the datacenter, `ca` the path of the certificate to trust.
 */

import { decoded, type HostAndPort, hostOf, splitUrl } from '../../core/address.js'
import { InvalidInputError } from '../../core/errors.js'
import { checkName } from '../../core/names.js'
import { flag, type OptionReader, optionsFrom, readCa, tokenIn } from '../shared/opening.js'
import { CONSUL_PORT, type ConsulRecipeOptions } from './backend.js'
import type { ConsulAccess } from './client.js'

export interface ConsulAddress {
  readonly hosts: readonly HostAndPort[]
  readonly isSecure: boolean
  readonly prefix: string
  readonly options: ReadonlyMap<string, string>
}

const SCHEMES: readonly string[] = ['consul', 'consuls']
/** The options of a URL that are for the client and not for the backend. */
const OWN_OPTIONS: readonly string[] = ['token', 'tokenFile', 'dc', 'ca']

const RECIPE_OPTIONS: ReadonlyMap<string, OptionReader> = new Map<string, OptionReader>([
  ['lockDelayMs', Number],
  ['ttlMinMs', Number],
  ['exactPath', flag],
])

export function parseConsulUrl(url: string): ConsulAddress {
  const parts = splitUrl(url)
  if (parts === null || !SCHEMES.includes(parts.scheme)) {
    throw new InvalidInputError('url', `like \`consul://host:${CONSUL_PORT}/prefix\``, url.length)
  }
  const { username, password } = parts.credentials
  if (username !== undefined || password !== undefined) {
    throw new InvalidInputError(
      'url',
      'without a user; a token is given by `tokenFile` or `token`',
      url.length,
    )
  }
  return {
    hosts: parts.authority.split(',').map((host) => hostOf(host, CONSUL_PORT)),
    isSecure: parts.scheme === 'consuls',
    prefix: decoded(parts.path.slice(1)),
    options: parts.options,
  }
}

export function recipeOptionsOf({ options, prefix }: ConsulAddress): ConsulRecipeOptions {
  return { ...optionsFrom(options, RECIPE_OPTIONS, OWN_OPTIONS), ...(prefix === '' ? {} : { prefix }) }
}

export async function accessOf({ hosts, isSecure, options }: ConsulAddress): Promise<ConsulAccess> {
  const ca = options.get('ca')
  if (ca !== undefined && !isSecure)
    throw new InvalidInputError('ca', 'left out, or the scheme to be `consuls:`', ca)
  const datacenter = options.get('dc')
  return {
    hosts,
    tls: isSecure ? (ca === undefined ? {} : { ca: await readCa(ca, 'consul') }) : null,
    token: await tokenIn(options, 'consul'),
    datacenter: datacenter === undefined ? null : checkName(datacenter, 'dc'),
  }
}
