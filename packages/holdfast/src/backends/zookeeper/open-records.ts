/** The records that a URL asks for. */

import type { RecordStore } from '../../core/records.js'
import { parseZookeeperUrl } from './address.js'
import { optionsOf } from './open.js'
import { zookeeperRecords } from './records.js'

export async function openZookeeperRecords(url: string): Promise<RecordStore> {
  return zookeeperRecords(await optionsOf(parseZookeeperUrl(url)))
}
