/** The suite of records, and random histories, on a group of Redis servers. */

import { openRedisRecords } from '../../src/backends/redis/open-records.js'
import type { RecordStore } from '../../src/core/records.js'
import type { StoreName } from '../conformance/redis-stores.js'
import { describeRecordStore } from './stores.js'

const DRIVERS = ['ioredis', 'redis'] as const

/** Every second client uses the other driver, so that what the one writes is read by the other. */
export async function describeRedisRecords(store: StoreName): Promise<void> {
  let opened = 0
  const opener = async (url: string): Promise<RecordStore> => {
    opened += 1
    return await openRedisRecords(`${url}&driver=${DRIVERS[opened % 2]}`)
  }
  await describeRecordStore(store, {
    urlFor: (url, tag) => `${url}?prefix=${tag}:`,
    opener,
    histories: true,
  })
}
