/** Makes a client of its own from a URL. */

import type { Backend } from '../../core/backend.js'
import { HoldfastError, InvalidInputError, UnsupportedError } from '../../core/errors.js'
import { flag, loadDriver, type OptionReader, optionsFrom, readCa } from '../shared/opening.js'
import { type EtcdAddress, parseEtcdUrl } from './address.js'
import { backendOver, type EtcdLineOptions, layoutFrom } from './backend.js'
import type { EtcdTls, Grpc } from './client.js'
import { unreachable } from './errors.js'
import { EtcdLink } from './link.js'
import { RANGE } from './messages.js'

const LINE_OPTIONS: ReadonlyMap<string, OptionReader> = new Map<string, OptionReader>([
  ['prefix', String],
  ['exactPath', flag],
  ['versionWarning', flag],
])
const OWN_OPTIONS: readonly string[] = ['ca', 'cert', 'key']

/** The backend that a URL asks for, over a client that ends with it. */
export async function openEtcd(url: string): Promise<Backend> {
  const address = parseEtcdUrl(url)
  const options = lineOptionsOf(address)
  layoutFrom(options)
  return backendOver(await openEtcdLink(address), options)
}

export function lineOptionsOf(address: EtcdAddress): EtcdLineOptions {
  const given: EtcdLineOptions = optionsFrom(address.options, LINE_OPTIONS, OWN_OPTIONS)
  if (address.prefix === '') return given
  if (given.prefix !== undefined) {
    throw new InvalidInputError('prefix', 'left out, or the URL to have no path', given.prefix)
  }
  return { ...given, prefix: address.prefix }
}

/** Resolves when a member has answered. */
export async function openEtcdLink(address: EtcdAddress): Promise<EtcdLink> {
  const grpc = await loadGrpc()
  const { endpoints, username, password } = address
  const link = new EtcdLink(grpc, { endpoints, tls: await tlsOf(address), username, password })
  // A member that is silent is left after a while, and every one gets its turn.
  for (let tries = 1; ; tries += 1) {
    try {
      await link.call(RANGE, { key: Buffer.of(0), countOnly: true, serializable: true })
      return link
    } catch (error) {
      // A user may be allowed to see the keys of the locks only, and is known all the same.
      if (isRefusedRead(error)) return link
      const isPassing = error instanceof HoldfastError && !(error instanceof UnsupportedError)
      if (isPassing && tries < endpoints.length) continue
      await link.close()
      throw isPassing ? unreachable(endpoints, error.cause ?? error) : error
    }
  }
}

function isRefusedRead(error: unknown): boolean {
  return error instanceof UnsupportedError && /does not let this user/.test(error.message)
}

async function loadGrpc(): Promise<Grpc> {
  const loaded = await loadDriver('@grpc/grpc-js', 'etcd')
  if (loaded === null) {
    throw new UnsupportedError('etcd needs a driver. Run `npm install @grpc/grpc-js`.', { backend: 'etcd' })
  }
  return loaded as Grpc
}

async function tlsOf({ options, tls }: EtcdAddress): Promise<EtcdTls | null> {
  const given = OWN_OPTIONS.filter((name) => options.has(name))
  if (!tls) {
    const [first] = given
    if (first !== undefined) {
      throw new InvalidInputError(first, 'left out, or the URL to begin with `etcds:`', options.get(first))
    }
    return null
  }
  if (options.has('cert') !== options.has('key')) {
    throw new InvalidInputError('cert', 'given together with `key`', options.get('cert'))
  }
  const texts = await Promise.all(
    given.map(async (name) => [name, await readCa(options.get(name) as string, 'etcd')] as const),
  )
  return Object.fromEntries(texts)
}
