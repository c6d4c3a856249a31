import { InvalidInputError, UnsupportedError } from '../../core/errors.js'
import type { RedisAddress } from './address.js'
import type { NodeRedisClient, NodeRedisCluster, NodeRedisSentinel, RedisClient } from './client.js'
import { redisError } from './errors.js'
import type { OpenContext, OwnClient } from './open.js'

type Connecting = (NodeRedisClient | NodeRedisCluster | NodeRedisSentinel) & {
  connect(): Promise<unknown>
  on(event: string, listener: (error: unknown) => void): unknown
}

interface NodeRedis {
  createClient(options: object): Connecting
  createCluster(options: object): Connecting
  createSentinel(options: object): Connecting
}

const RECONNECT_MS_MAX = 500
/** A connection that hears nothing for this long, not even an answer to its own pings, is dead. */
const SILENCE_MS = 15_000
const PING_MS = 5_000

export function openWithNodeRedis(
  module: unknown,
  address: RedisAddress,
  context: OpenContext,
): OwnClient & { readonly ready: Promise<unknown> } {
  const redis = module as NodeRedis
  if (typeof redis.createSentinel !== 'function') {
    throw new InvalidInputError('driver', 'a version of `redis` from 5 on', typeof redis.createSentinel)
  }
  // Who was never there is not waited for; who was there once is looked for again and again.
  let wasThere = false
  const retry: Retry = (tries, cause) => (wasThere ? Math.min((tries + 1) * 50, RECONNECT_MS_MAX) : cause)
  const client = createFor(redis, address, context, retry)
  // What goes wrong later shows in the commands, and without a listener it would end the process. At first, the driver
  // would go on trying with a password that is not accepted.
  const refused = new Promise<never>((_resolve, reject) => {
    client.on('error', (error) => {
      if (redisError(error) instanceof UnsupportedError) reject(error)
    })
  })
  const end = async (): Promise<void> => {
    if (client.isOpen) await client.destroy()
  }
  const ready = Promise.race([client.connect(), refused]).then(() => {
    wasThere = true
  })
  return { client: client as RedisClient, end, ready }
}

type Retry = (tries: number, cause: Error) => number | Error

function createFor(redis: NodeRedis, address: RedisAddress, context: OpenContext, retry: Retry): Connecting {
  const { hosts, username, password, database, masterName, topology } = address
  const tls = address.tls ? { tls: true, ...(context.ca === undefined ? {} : { ca: context.ca }) } : {}
  const socket = {
    ...tls,
    connectTimeout: 5_000,
    socketTimeout: SILENCE_MS,
    reconnectStrategy: retry,
  }
  const common = {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    pingInterval: PING_MS,
    socket,
  }
  switch (topology) {
    case 'cluster':
      return redis.createCluster({
        rootNodes: hosts.map(({ host, port }) => ({ socket: { ...tls, host, port } })),
        defaults: common,
      })
    case 'sentinel':
      return redis.createSentinel({
        name: masterName,
        sentinelRootNodes: hosts,
        nodeClientOptions: { ...common, database },
      })
    case 'single':
    case 'redlock':
      // A command without a connection fails at once, and the core knows what to do.
      return redis.createClient({
        ...common,
        disableOfflineQueue: true,
        database,
        socket: { ...socket, ...hosts[0] },
      })
  }
}
