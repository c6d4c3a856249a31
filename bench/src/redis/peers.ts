/**
 * The peers, each by its documented way to take a lock and to give it back. All of them poll. Each takes part as it
 * comes, apart from a patience without end, and with a wait of 5 ms between two looks; the better of the two counts.
 */

import { Redlock as SesameRedlock } from '@sesamecare-oss/redlock'
import { LockFactory } from '@verrou/core'
import { redisStore } from '@verrou/core/drivers/redis'
import { Redis } from 'ioredis'
import { Mutex } from 'redis-semaphore'
import Redlock from 'redlock'
import { createLock, IoredisAdapter, type Lock } from 'redlock-universal'
import { type LockClient, lockClient, type Subject, TTL_MS } from './subject.js'

const FAST_MS = 5

/** For all peers: one connection without any setting. */
function connection(port: number): { redis: Redis; close: () => Promise<void> } {
  const redis = new Redis(port, '127.0.0.1')
  return {
    redis,
    async close() {
      await redis.quit()
    },
  }
}

/** Both variants of redlock count -1 retries as without end. */
const FOREVER = -1

function redlock(settings: { retryDelay?: number; retryJitter?: number }) {
  return async (port: number): Promise<LockClient> => {
    const { redis, close } = connection(port)
    const locker = new Redlock([redis], { retryCount: FOREVER, ...settings })
    return lockClient(
      (name) => locker.acquire([name], TTL_MS),
      (lock) => lock.release(),
      close,
    )
  }
}

function sesameRedlock(settings: { retryDelay?: number; retryJitter?: number }) {
  return async (port: number): Promise<LockClient> => {
    const { redis, close } = connection(port)
    const locker = new SesameRedlock([redis], { retryCount: FOREVER, ...settings })
    return lockClient(
      (name) => locker.acquire([name], TTL_MS),
      (lock) => lock.release(),
      close,
    )
  }
}

function redisSemaphore(settings: { retryInterval?: number }) {
  return async (port: number): Promise<LockClient> => {
    const { redis, close } = connection(port)
    const options = { lockTimeout: TTL_MS, acquireTimeout: Number.POSITIVE_INFINITY, ...settings }
    // A mutex object stands for one caller, so every acquisition has its own, as in the examples of the package.
    const acquire = async (name: string): Promise<Mutex> => {
      const mutex = new Mutex(redis, name, options)
      await mutex.acquire()
      return mutex
    }
    return lockClient(acquire, (mutex) => mutex.release(), close)
  }
}

function verrou(settings: { delay?: number }) {
  return async (port: number): Promise<LockClient> => {
    const { redis, close } = connection(port)
    const factory = new LockFactory(redisStore({ connection: redis }).factory(), { retry: settings })
    const acquire = async (name: string): Promise<ReturnType<LockFactory['createLock']>> => {
      const lock = factory.createLock(name, TTL_MS)
      if (!(await lock.acquire())) throw new Error(`The lock '${name}' was not to be had.`)
      return lock
    }
    return lockClient(acquire, (lock) => lock.release(), close)
  }
}

function redlockUniversal(settings: { retryDelay?: number; performance?: 'lean' }) {
  return async (port: number): Promise<LockClient> => {
    const { redis, close } = connection(port)
    const adapter = new IoredisAdapter(redis)
    const options = { adapter, ttl: TTL_MS, retryAttempts: Number.MAX_SAFE_INTEGER, ...settings }
    // A lock object stands for a name and checks the connection when it is new, so it is kept.
    const locks = new Map<string, Lock>()
    const lockOf = (name: string): Lock => {
      const known = locks.get(name)
      if (known !== undefined) return known
      const made = createLock({ ...options, key: name })
      locks.set(name, made)
      return made
    }
    return lockClient(
      (name) => lockOf(name).acquire(),
      (handle) => lockOf(handle.key).release(handle),
      close,
    )
  }
}

function peer(name: string, pollMs: number, open: Subject['open']): Subject {
  return { name, kind: 'peer', pollMs, open }
}

const fastRedlock = { retryDelay: FAST_MS, retryJitter: 2 }

/** As they come: the numbers are the defaults that their documentation states. */
export const peersAsTheyCome: readonly Subject[] = [
  peer('redlock', 200, redlock({})),
  peer('@sesamecare-oss/redlock', 200, sesameRedlock({})),
  peer('redis-semaphore', 10, redisSemaphore({})),
  peer('@verrou/core', 250, verrou({})),
  peer('redlock-universal', 100, redlockUniversal({})),
]

export const fastPeers: readonly Subject[] = [
  peer('redlock, 5 ms', FAST_MS, redlock(fastRedlock)),
  peer('@sesamecare-oss/redlock, 5 ms', FAST_MS, sesameRedlock(fastRedlock)),
  peer('redis-semaphore, 5 ms', FAST_MS, redisSemaphore({ retryInterval: FAST_MS })),
  peer('@verrou/core, 5 ms', FAST_MS, verrou({ delay: FAST_MS })),
  peer(
    'redlock-universal, lean, 5 ms',
    FAST_MS,
    redlockUniversal({ retryDelay: FAST_MS, performance: 'lean' }),
  ),
]

export const peers: readonly Subject[] = [...peersAsTheyCome, ...fastPeers]
