import { describeZookeeper } from './zookeeper-stores.js'

await describeZookeeper('zookeeper')
