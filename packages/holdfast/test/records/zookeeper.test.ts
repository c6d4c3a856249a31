// @module-tag effects
import { openZookeeperRecords } from '../../src/backends/zookeeper/open-records.js'
import { describeRecordStore } from './stores.js'

await describeRecordStore('zookeeper', {
  urlFor: (url, tag) => `${url}/${tag}`,
  opener: openZookeeperRecords,
})
