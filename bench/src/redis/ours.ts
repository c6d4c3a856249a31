/** This library, on both of the drivers that it knows. */

import { createLocks, type Hold, type Locks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { type LockClient, lockClient, type Subject } from './subject.js'

export interface OurLocks {
  readonly locks: Locks
  readonly close: () => Promise<void>
}

export interface OurOptions {
  readonly fenceMemoryMs?: number
  readonly ttlMs?: number
}

export async function openOurs(port: number, { fenceMemoryMs, ttlMs }: OurOptions = {}): Promise<OurLocks> {
  const client = new Redis(port, '127.0.0.1')
  const memory = fenceMemoryMs === undefined ? {} : { fenceMemoryMs }
  const backend = redisBackend({ client, recipe: 'line', ...memory })
  const locks = await createLocks(backend, ttlMs === undefined ? {} : { ttlMs })
  return {
    locks,
    async close() {
      await locks.close()
      client.disconnect()
    },
  }
}

function clientOf(locks: Locks, close: () => Promise<void>): LockClient {
  const acquire = (name: string): Promise<Hold> => locks.mutex(name).acquire()
  return lockClient(acquire, (hold) => hold.release(), close)
}

async function openOnIoredis(port: number): Promise<LockClient> {
  const { locks, close } = await openOurs(port)
  return clientOf(locks, close)
}

async function openOnNodeRedis(port: number): Promise<LockClient> {
  const client = createClient({ socket: { host: '127.0.0.1', port } })
  await client.connect()
  const locks = await createLocks(redisBackend({ client, recipe: 'line' }))
  return clientOf(locks, async () => {
    await locks.close()
    await client.close()
  })
}

export const ours: readonly Subject[] = [
  { name: 'holdfast', kind: 'ours', pollMs: 0, open: openOnIoredis },
  { name: 'holdfast on node-redis', kind: 'ours', pollMs: 0, open: openOnNodeRedis },
]
