// @module-tag effects
import { openEtcdRecords } from '../../src/backends/etcd/open-records.js'
import { describeRecordStore } from './stores.js'

await describeRecordStore('etcd', {
  urlFor: (url, tag) => `${url}/${tag}?versionWarning=false`,
  opener: openEtcdRecords,
})
