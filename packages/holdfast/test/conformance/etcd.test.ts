import { describeEtcd } from './etcd-stores.js'

await describeEtcd('etcd')
