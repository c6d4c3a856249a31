/** Records over a pool of their own, from the same URLs as locks. */

import type { RecordStore } from '../../core/records.js'
import { backendOptionsOf, parseSqlUrl } from '../sql/address.js'
import { openPostgresLink, POSTGRES_OPTIONS, POSTGRES_SCHEME } from './open.js'
import { type PostgresRecordsOptions, recordsOver } from './records.js'

/** One URL may serve locks and records, so what is only for locks is understood here, and means nothing. */
const OPTIONS = new Map([...POSTGRES_OPTIONS, ['table', String]])

/** The records that a URL asks for, over a pool that ends with them. */
export async function openPostgresRecords(url: string): Promise<RecordStore> {
  const options = postgresRecordOptions(url)
  const link = await openPostgresLink(parseSqlUrl(url, POSTGRES_SCHEME), options.prepare !== false)
  try {
    return recordsOver(link, options)
  } catch (error) {
    await link.close()
    throw error
  }
}

export function postgresRecordOptions(url: string): PostgresRecordsOptions {
  const { table, tablePrefix, prepare } = backendOptionsOf(parseSqlUrl(url, POSTGRES_SCHEME), OPTIONS)
  return { table, tablePrefix, prepare } as PostgresRecordsOptions
}
