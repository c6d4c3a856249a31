// @module-tag effects
import { openMemcachedRecords } from '../../src/backends/memcached/open-records.js'
import { describeRecordStore } from './stores.js'

await describeRecordStore('memcached', {
  urlFor: (url, tag) => `${url}?prefix=${tag}:`,
  opener: openMemcachedRecords,
  histories: true,
})
