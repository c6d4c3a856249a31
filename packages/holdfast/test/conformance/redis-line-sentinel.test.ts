import { describeRedis } from './redis-stores.js'

await describeRedis('redis-sentinel', [
  { name: 'redis line, sentinel, ioredis', options: 'driver=ioredis', ready: 'ioredis' },
  { name: 'redis line, sentinel, node-redis', options: 'driver=redis', ready: 'redis' },
])
