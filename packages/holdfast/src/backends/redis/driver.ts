/** Tells by its shape which library a client comes from, and for which topology. */

import { InvalidInputError } from '../../core/errors.js'
import type {
  IoredisClient,
  IoredisCluster,
  NodeRedisClient,
  NodeRedisCluster,
  NodeRedisSentinel,
  RedisClient,
} from './client.js'
import { IoredisClusterLink, IoredisLink } from './ioredis-link.js'
import type { End, RedisLink } from './link.js'
import { NodeRedisClusterLink, NodeRedisLink, NodeRedisSentinelLink } from './node-redis-link.js'

/** `end` is called when the link is closed; a client that was given has none. */
export function linkOf(client: RedisClient, what = 'client', end: End = async () => {}): RedisLink {
  if (has(client, 'call', 'subscribe')) {
    const cluster = 'isCluster' in client && client.isCluster
    return cluster
      ? new IoredisClusterLink(client as IoredisCluster, end)
      : new IoredisLink(client as IoredisClient, end)
  }
  if (!has(client, 'sendCommand', 'subscribe')) {
    throw new InvalidInputError(what, 'a client of `ioredis` or `redis`', client)
  }
  if ('isOpen' in client && !client.isOpen) {
    throw new InvalidInputError(what, 'a connected client: await its `connect()` first', client)
  }
  if (has(client, 'nodeClient')) return new NodeRedisClusterLink(client as NodeRedisCluster, end)
  if (has(client, 'getMasterNode')) return new NodeRedisSentinelLink(client as NodeRedisSentinel, end)
  return new NodeRedisLink(client as NodeRedisClient, end)
}

function has(value: unknown, ...methods: readonly string[]): boolean {
  if (typeof value !== 'object' || value === null) return false
  return methods.every((method) => typeof Reflect.get(value, method) === 'function')
}
