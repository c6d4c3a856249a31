export { type RedisOptions, type RedisRecipe, redisBackend } from './backends/redis/backend.js'
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
