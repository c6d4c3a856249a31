import type { RecordStore } from '../../core/records.js'
import { parseEtcdUrl } from './address.js'
import { checkLine } from './backend.js'
import { lineOptionsOf, openEtcdLink } from './open.js'
import { recordsOver } from './records.js'

/** The records that a URL leads to, over a client that ends with them. */
export async function openEtcdRecords(url: string): Promise<RecordStore> {
  const address = parseEtcdUrl(url)
  const options = lineOptionsOf(address)
  checkLine(options)
  return recordsOver(await openEtcdLink(address), options)
}
