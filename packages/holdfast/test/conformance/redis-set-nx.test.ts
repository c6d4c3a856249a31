import { describeRedis } from './redis-stores.js'

await describeRedis('redis', [{ name: 'redis set-nx', options: 'recipe=set-nx' }])
