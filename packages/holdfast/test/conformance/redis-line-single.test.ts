import { describeRedis } from './redis-stores.js'

await describeRedis('redis', [
  { name: 'redis line, single, ioredis', options: 'driver=ioredis' },
  { name: 'redis line, single, node-redis', options: 'driver=redis' },
])
