import { describeRedis } from './redis-stores.js'

/**
 * The masters have just been started, so they must be trusted at once. A node gets a quarter of the lease for its answer,
 * which is the most there is, because a busy machine is not a node that is away.
 */
await describeRedis('redis-masters', [{ name: 'redlock', options: 'restartDelayMs=0&nodeMs=5000' }])
