export {
  type RecipeOptions,
  type RedisOptions,
  type RedisRecipe,
  redisBackend,
} from './backends/redis/backend.js'
export type {
  IoredisClient,
  IoredisCluster,
  IoredisNode,
  NodeRedisClient,
  NodeRedisCluster,
  NodeRedisSentinel,
  RedisClient,
  RedisDriverName,
} from './backends/redis/client.js'
export { LINE_GUARANTEES } from './backends/redis/line.js'
export { type RecordsOptions, type RedisRecordsOptions, redisRecords } from './backends/redis/records.js'
export { type RedlockOptions, type RedlockRecipe, redlockBackend } from './backends/redis/redlock.js'
export { SET_NX_GUARANTEES } from './backends/redis/set-nx.js'
