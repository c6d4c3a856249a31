// @ts-check
// Redis as the stores that tests can ask for by name.
import { controlledStore } from './controlled.js'
import { startRedis, startRedisMasters } from './redis.js'
import { startRedisCluster } from './redis-cluster.js'
import { startRedisSentinel } from './redis-sentinel.js'

const needs = { programs: ['redis-server'], extras: ['redis-cli', 'openssl', 'python3-redis'] }

/** @type {readonly import('./store.js').StoreDefinition[]} */
export const redisStores = [
  controlledStore('redis', { ...needs, start: () => startRedis() }),
  controlledStore('redis-masters', { ...needs, start: () => startRedisMasters() }),
  controlledStore('redis-sentinel', { ...needs, start: () => startRedisSentinel() }),
  controlledStore('redis-cluster', { ...needs, start: () => startRedisCluster() }),
]
