// @module-tag effects
import { describeRedisRecords } from './redis-records.js'

await describeRedisRecords('redis-cluster')
