export {
  type GuardedSetOptions,
  type RedisGuard,
  type RedisGuardOptions,
  redisGuard,
} from './backends/redis/guard.js'
export { FenceGate } from './fencing/gate.js'
