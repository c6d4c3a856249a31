// @module-tag effects
import { openConsulRecords } from '../../src/backends/consul/open-records.js'
import { describeRecordStore } from './stores.js'

await describeRecordStore('consul', {
  // The servers here take sessions of a second.
  urlFor: (url, tag) => `${url}/${tag}?ttlMinMs=1000`,
  opener: openConsulRecords,
})
