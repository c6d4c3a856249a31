import { describeRedis } from './redis-stores.js'
import { OTHER_DRIVER } from './skipped-themes.js'

await describeRedis('redis', [
  { name: 'redis line, single, ioredis', options: 'driver=ioredis' },
  { name: 'redis line, single, node-redis', options: 'driver=redis', skip: OTHER_DRIVER },
])
