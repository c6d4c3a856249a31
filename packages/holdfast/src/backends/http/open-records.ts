import type { RecordStore } from '../../core/records.js'
import { accessOf, parseServiceUrl } from './address.js'
import { ServiceClient } from './client.js'
import { recordsOver } from './records.js'

/** The records that a URL leads to, over a client that ends with them. */
export async function openRemoteRecords(url: string): Promise<RecordStore> {
  return recordsOver(new ServiceClient(await accessOf(parseServiceUrl(url))))
}
