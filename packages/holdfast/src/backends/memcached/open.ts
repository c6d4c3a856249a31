/** Makes a client of its own from a URL. */

import type { Backend } from '../../core/backend.js'
import { InvalidInputError } from '../../core/errors.js'
import { flag, type OptionReader, optionsFrom, readCa } from '../shared/opening.js'
import { type MemcachedUrl, parseMemcachedUrl } from './address.js'
import { backendAt } from './backend.js'
import type { MemcachedAddress } from './client.js'

const OPTIONS: ReadonlyMap<string, OptionReader> = new Map<string, OptionReader>([
  ['recipe', String],
  ['prefix', String],
  ['exactPath', flag],
  ['requestMs', Number],
])

/** The backend that a URL asks for. It connects when it is opened. */
export async function openMemcached(url: string): Promise<Backend> {
  const parsed = parseMemcachedUrl(url)
  const options = optionsFrom(parsed.options, OPTIONS, ['ca'])
  return backendAt(await addressOf(parsed), options)
}

export async function addressOf({ options, ...address }: MemcachedUrl): Promise<MemcachedAddress> {
  const path = options.get('ca')
  if (path === undefined) return address
  if (address.tls !== true)
    throw new InvalidInputError('ca', 'left out, or the URL to begin with `memcacheds:`', path)
  return { ...address, ca: await readCa(path, 'memcached') }
}
