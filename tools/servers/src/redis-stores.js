// @ts-check
// Redis as the stores that tests can ask for by name.
import { ProgramMissingError } from './programs.js'
import { startRedis, startRedisMasters } from './redis.js'
import { startRedisCluster } from './redis-cluster.js'
import { startRedisSentinel } from './redis-sentinel.js'

/** @typedef {import('./store.js').StoreDefinition} StoreDefinition */

/**
 * @param {string} name
 * @param {() => Promise<{ readonly url: string, dispose(): Promise<void> }>} startServers
 * @returns {StoreDefinition}
 */
function redisStore(name, startServers) {
  return {
    name,
    programs: ['redis-server'],
    extras: ['redis-cli', 'openssl', 'python3-redis'],
    start: async () => {
      try {
        const control = await startServers()
        const { url } = control
        return { kind: 'ready', store: { name, url, control, dispose: () => control.dispose() } }
      } catch (error) {
        if (!(error instanceof ProgramMissingError)) throw error
        return { kind: 'not run', name, reason: error.reason }
      }
    },
  }
}

/** @type {readonly StoreDefinition[]} */
export const redisStores = [
  redisStore('redis', () => startRedis()),
  redisStore('redis-masters', () => startRedisMasters()),
  redisStore('redis-sentinel', () => startRedisSentinel()),
  redisStore('redis-cluster', () => startRedisCluster()),
]
