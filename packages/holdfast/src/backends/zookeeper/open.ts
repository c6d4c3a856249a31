/** The backend that a URL asks for. */

import type { Backend } from '../../core/backend.js'
import { InvalidInputError } from '../../core/errors.js'
import { flag, type OptionReader, optionsFrom, readCa } from '../shared/opening.js'
import { parseZookeeperUrl, type ZookeeperAddress } from './address.js'
import { type ZookeeperOptions, zookeeperBackend } from './backend.js'
import type { TlsSettings } from './wire/zookeeper.js'

const OPTIONS: ReadonlyMap<string, OptionReader> = new Map<string, OptionReader>([
  ['recipe', String],
  ['exactPath', flag],
  ['sessionMs', Number],
  ['acl', String],
])
const OWN_OPTIONS: readonly string[] = ['ca', 'cert', 'key']

export async function openZookeeper(url: string): Promise<Backend> {
  return await zookeeperBackend(await optionsOf(parseZookeeperUrl(url)))
}

/** What the URL says, as the options of a backend. */
export async function optionsOf(address: ZookeeperAddress): Promise<ZookeeperOptions> {
  const { hosts, digest, base } = address
  const options = optionsFrom(address.options, OPTIONS, OWN_OPTIONS)
  const tls = await tlsOf(address)
  return {
    ...options,
    hosts,
    ...(base === '' || options['exactPath'] === true ? {} : { base }),
    ...(digest === null ? {} : { auth: [{ scheme: 'digest', credential: digest }] }),
    ...(tls === null ? {} : { tls }),
  }
}

async function tlsOf({ tls, options }: ZookeeperAddress): Promise<TlsSettings | null> {
  const given = OWN_OPTIONS.flatMap((name) => {
    const path = options.get(name)
    return path === undefined ? [] : [{ name, path }]
  })
  if (!tls) {
    const [first] = given
    if (first === undefined) return null
    throw new InvalidInputError(first.name, 'left out, or the URL to begin with `zookeepers:`', first.path)
  }
  const read = given.map(async ({ name, path }) => [name, await readCa(path, 'zookeeper')] as const)
  return Object.fromEntries(await Promise.all(read))
}
