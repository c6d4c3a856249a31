import { describeRedis } from './redis-stores.js'

await describeRedis('redis-cluster', [
  { name: 'redis line, cluster, ioredis', options: 'driver=ioredis', ready: 'ioredis' },
  { name: 'redis line, cluster, node-redis', options: 'driver=redis', ready: 'redis' },
])
