/** Records over a pool of their own, from the same URLs as locks. */

import type { RecordStore } from '../../core/records.js'
import { backendOptionsOf, parseSqlUrl } from '../sql/address.js'
import { MYSQL_OPTIONS, MYSQL_SCHEME, openMysqlLink } from './open.js'
import { type MysqlRecordsOptions, recordsOver } from './records.js'

/** One URL may serve locks and records, so what is only for locks is understood here, and means nothing. */
const OPTIONS = new Map([...MYSQL_OPTIONS, ['table', String]])

/** The records that a URL asks for, over a pool that ends with them. */
export async function openMysqlRecords(url: string): Promise<RecordStore> {
  const options = mysqlRecordOptions(url)
  const link = await openMysqlLink(parseSqlUrl(url, MYSQL_SCHEME))
  try {
    return recordsOver(link, options)
  } catch (error) {
    await link.close()
    throw error
  }
}

export function mysqlRecordOptions(url: string): MysqlRecordsOptions {
  const { table, tablePrefix } = backendOptionsOf(parseSqlUrl(url, MYSQL_SCHEME), OPTIONS)
  return { table, tablePrefix } as MysqlRecordsOptions
}
