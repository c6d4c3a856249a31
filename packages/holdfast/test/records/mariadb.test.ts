// @module-tag effects
import { openMysqlRecords } from '../../src/backends/mysql/open-records.js'
import { describeRecordStore } from './stores.js'

await describeRecordStore('mariadb', {
  urlFor: (url, tag) => `${url}?table=${tag}&max=4`,
  opener: openMysqlRecords,
  histories: true,
})
