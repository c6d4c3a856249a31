// @module-tag effects
import { sqliteRecords } from '../../src/backends/sqlite/records.js'
import { describeRecordStore } from './stores.js'

await describeRecordStore('sqlite', {
  urlFor: (url) => url,
  opener: (url) => sqliteRecords({ path: url.slice('sqlite:'.length) }),
  histories: true,
})
