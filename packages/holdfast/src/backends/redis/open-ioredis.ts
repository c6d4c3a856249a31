import { InvalidInputError } from '../../core/errors.js'
import type { RedisAddress } from './address.js'
import type { IoredisCluster } from './client.js'
import type { OpenContext, OwnClient } from './open.js'
import { type FollowingClient, SentinelWatch } from './sentinel-watch.js'

type Connecting<T> = T & { connect(): Promise<unknown> }

interface Ioredis {
  readonly Redis: new (options: object) => Connecting<FollowingClient>
  readonly Cluster: new (nodes: readonly object[], options: object) => Connecting<IoredisCluster>
}

const RECONNECT_MS_MAX = 500

/**
 * A command without a connection fails at once, and one whose connection breaks is not sent again: both are said to the
 * core, which knows what to do. A server that does not answer for long is given up, and another connection tried.
 */
const TUNED = {
  lazyConnect: true,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  connectTimeout: 5_000,
  socketTimeout: 10_000,
  keepAlive: 10_000,
  // A connection that never came would otherwise keep the process for as long as one that has to be closed.
  disconnectTimeout: 100,
  retryStrategy: (tries: number): number => Math.min(tries * 50, RECONNECT_MS_MAX),
  // A master that became a replica: look for the new one, and leave it to the core to ask again.
  reconnectOnError: (error: Error): boolean => error.message.startsWith('READONLY'),
}

export function openWithIoredis(
  module: unknown,
  address: RedisAddress,
  context: OpenContext,
): OwnClient & { readonly ready: Promise<unknown> } {
  const { Redis, Cluster } = module as Ioredis
  if (typeof Redis !== 'function' || typeof Cluster !== 'function') {
    throw new InvalidInputError('driver', 'a version of `ioredis` from 5.4 on', typeof Redis)
  }
  const { hosts, username, password, database, masterName, topology } = address
  const options = {
    ...TUNED,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(address.tls ? { tls: context.ca === undefined ? {} : { ca: context.ca } } : {}),
  }
  if (topology === 'cluster') {
    const cluster = new Cluster(hosts, {
      lazyConnect: true,
      enableOfflineQueue: false,
      // The cluster connects to its nodes when it needs them, and keeps the first command until then.
      redisOptions: { ...options, enableOfflineQueue: true },
      clusterRetryStrategy: TUNED.retryStrategy,
      slotsRefreshTimeout: 2_000,
    })
    return opening(cluster, async () => cluster.disconnect())
  }
  const client = new Redis({
    ...options,
    db: database,
    // Behind Sentinel, ioredis leaves out TLS unless it is told once more, and would send the password as it is.
    ...(topology === 'sentinel'
      ? { sentinels: hosts, name: masterName, enableTLSForSentinelMode: address.tls }
      : hosts[0]),
  })
  const watch = topology === 'sentinel' ? watchFor(Redis, address, client) : null
  return opening(client, async () => {
    watch?.close()
    client.disconnect()
  })
}

/** Both the client and what it makes to listen on follow the master. */
function watchFor(
  Redis: Ioredis['Redis'],
  { hosts, masterName }: RedisAddress,
  client: FollowingClient,
): SentinelWatch {
  const watch = new SentinelWatch(
    hosts,
    masterName,
    (host) => new Redis({ ...TUNED, ...host, enableOfflineQueue: true, maxRetriesPerRequest: null }),
  )
  watch.follow(client)
  const duplicate = client.duplicate.bind(client)
  client.duplicate = (override) => {
    const copy = duplicate(override) as FollowingClient
    watch.follow(copy)
    return copy
  }
  return watch
}

function opening(
  client: Connecting<FollowingClient | IoredisCluster>,
  end: () => Promise<void>,
): OwnClient & { readonly ready: Promise<unknown> } {
  // What goes wrong later shows in the commands, and without a listener it would end the process. Why there is no
  // connection in the first place, a wrong password for one, is said only here: the attempt itself just ends.
  let reason: unknown = null
  client.on('error', (error: unknown) => {
    reason = error instanceof Error && 'lastNodeError' in error ? error.lastNodeError : error
  })
  const ready = client.connect().catch((error: unknown) => {
    throw reason ?? error
  })
  return { client, end, ready }
}
