/** Records over a client of their own, by the same URLs as locks. */

import type { RecordStore } from '../../core/records.js'
import { type OptionReader, optionsFrom } from '../shared/opening.js'
import { parseMemcachedUrl } from './address.js'
import { addressOf } from './open.js'
import { recordsAt } from './records.js'

const OPTIONS: ReadonlyMap<string, OptionReader> = new Map<string, OptionReader>([
  ['prefix', String],
  ['requestMs', Number],
])

/** The records that a URL asks for. They connect when they are opened. */
export async function openMemcachedRecords(url: string): Promise<RecordStore> {
  const parsed = parseMemcachedUrl(url)
  const options = optionsFrom(parsed.options, OPTIONS, ['ca'])
  return recordsAt(await addressOf(parsed), options)
}
