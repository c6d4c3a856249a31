// @module-tag effects
import { openPostgresRecords } from '../../src/backends/postgres/open-records.js'
import { describeRecordStore } from './stores.js'

await describeRecordStore('postgres', {
  urlFor: (url, tag) => `${url}?table=${tag}&max=4`,
  opener: openPostgresRecords,
  histories: true,
})
