// @ts-check
export { ensurePrograms } from './install.js'
export { requiredStores, StoreMissingError } from './policy.js'
export { ServerProcess, startServer } from './process.js'
export { missingPrograms, ProgramMissingError } from './programs.js'
export { startProxy, TcpProxy } from './proxy.js'
export { RedisServer, startRedis, startRedisMasters } from './redis.js'
export { startRedisCluster } from './redis-cluster.js'
export { startRedisSentinel } from './redis-sentinel.js'
export { storeFor, stores } from './registry.js'
export { ReplyError, redisCommand } from './resp.js'

/** @typedef {import('./process.js').ServerPlan} ServerPlan */
/** @typedef {import('./redis.js').RedisMasters} RedisMasters */
/** @typedef {import('./redis.js').RedisOptions} RedisOptions */
/** @typedef {import('./redis-cluster.js').RedisCluster} RedisCluster */
/** @typedef {import('./redis-sentinel.js').RedisSentinel} RedisSentinel */
/** @typedef {import('./resp.js').Reply} Reply */
/** @typedef {import('./store.js').Controls} Controls */
/** @typedef {import('./store.js').Store} Store */
/** @typedef {import('./store.js').StoreDefinition} StoreDefinition */
/** @typedef {import('./store.js').StoreOutcome} StoreOutcome */
