import { describeRedisRecords } from './redis-records.js'

await describeRedisRecords('redis-cluster')
