/** Records over clients of their own, by the same URLs as locks. */

import { UnsupportedError } from '../../core/errors.js'
import type { RecordStore } from '../../core/records.js'
import { type OptionReader, optionsFrom } from '../shared/opening.js'
import { parseRedisUrl } from './address.js'
import { OWN_OPTIONS, overLinks } from './open.js'
import { recordsOver } from './records.js'

const OPTIONS: ReadonlyMap<string, OptionReader> = new Map<string, OptionReader>([
  ['prefix', String],
  ['waitReplicas', Number],
  ['waitReplicasMs', Number],
])

/** The records that a URL asks for, over a client that ends with them. */
export async function openRedisRecords(url: string): Promise<RecordStore> {
  const address = parseRedisUrl(url)
  if (address.topology === 'redlock') {
    throw new UnsupportedError(
      'A record is one truth, and independent masters have several. Use `redis:`, `redis+sentinel:` or `redis+cluster:`.',
      { backend: 'redis' },
    )
  }
  const options = optionsFrom(address.options, OPTIONS, OWN_OPTIONS)
  return await overLinks(address, ([link]) => recordsOver(link, options))
}
