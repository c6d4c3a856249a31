/** Idempotency on one Redis server: this library, the least that any can do, and the peers by their documented ways. */

import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency'
import { CachePersistenceLayer } from '@aws-lambda-powertools/idempotency/cache'
import { Idempotency as NodeIdempotency } from '@node-idempotency/core'
import { RedisStorageAdapter } from '@node-idempotency/storage-adapter-redis'
import { createIdempotency } from 'holdfast/idempotency'
import { type RedisClient, redisRecords } from 'holdfast/redis'
import { Redis } from 'ioredis'
import { createClient } from 'redis'

/** Longer than any run takes, so that what is replayed stays. */
const RETENTION_MS = 3_600_000
const LEASE_MS = 30_000
const BODY = { account: 'a-1', amount: 1_250, currency: 'EUR', items: [{ sku: 'x-1', count: 2 }] }
const RESULT = { order: 'o-1', status: 'created', total: 1_250 }
const TENANT = { tenant: 'shop-1', operation: 'order.create' }

export interface IdempotencyClient {
  /** Runs the work under a new key and stores its result. */
  first(key: string): Promise<void>
  /** Gives the result that is stored for a key. */
  replay(key: string): Promise<void>
  close(): Promise<void>
}

export interface IdempotencySubject {
  readonly name: string
  readonly kind: 'raw' | 'ours' | 'peer'
  open(port: number): Promise<IdempotencyClient>
}

async function nodeRedis(port: number) {
  const client = createClient({ socket: { host: '127.0.0.1', port } })
  // What went wrong shows in the commands, and without a listener nobody would hear of it.
  client.on('error', () => {})
  await client.connect()
  return client
}

async function overClient(client: RedisClient, end: () => unknown): Promise<IdempotencyClient> {
  const idempotency = await createIdempotency(redisRecords({ client }), { retention: RETENTION_MS })
  const run = async (key: string): Promise<boolean> =>
    (await idempotency.run({ scope: TENANT, key, input: BODY }, () => RESULT)).replayed
  return clientOf(run, async () => {
    await idempotency.close()
    await end()
  })
}

async function openOnIoredis(port: number): Promise<IdempotencyClient> {
  const client = new Redis(port, '127.0.0.1')
  return await overClient(client, () => client.disconnect())
}

async function openOnNodeRedis(port: number): Promise<IdempotencyClient> {
  const client = await nodeRedis(port)
  return await overClient(client as RedisClient, () => client.close())
}

/** Two round trips for what is new, and one for what is known: no library can do with less. */
async function openBareIoredis(port: number): Promise<IdempotencyClient> {
  const redis = new Redis(port, '127.0.0.1')
  const text = JSON.stringify(RESULT)
  return {
    async first(key) {
      check((await redis.set(key, '', 'PX', RETENTION_MS, 'NX')) === 'OK')
      check((await redis.set(key, text, 'PX', RETENTION_MS, 'XX')) === 'OK')
    },
    async replay(key) {
      check((await redis.get(key)) === text)
    },
    async close() {
      await redis.quit()
    },
  }
}

async function openBareNodeRedis(port: number): Promise<IdempotencyClient> {
  const redis = await nodeRedis(port)
  const text = JSON.stringify(RESULT)
  const expiration = { type: 'PX', value: RETENTION_MS } as const
  return {
    async first(key) {
      check((await redis.set(key, '', { expiration, condition: 'NX' })) === 'OK')
      check((await redis.set(key, text, { expiration, condition: 'XX' })) === 'OK')
    },
    async replay(key) {
      check((await redis.get(key)) === text)
    },
    async close() {
      await redis.close()
    },
  }
}

async function openNodeIdempotency(port: number): Promise<IdempotencyClient> {
  const storage = new RedisStorageAdapter({ socket: { host: '127.0.0.1', port } })
  await storage.connect()
  const idempotency = new NodeIdempotency(storage, { cacheTTLMS: RETENTION_MS })
  const run = async (key: string): Promise<boolean> => {
    const request = { headers: { 'idempotency-key': key }, path: '/orders', method: 'POST', body: BODY }
    if ((await idempotency.onRequest(request)) !== undefined) return true
    await idempotency.onResponse(request, { body: RESULT })
    return false
  }
  return clientOf(run, () => storage.disconnect())
}

async function openPowertools(port: number): Promise<IdempotencyClient> {
  const client = await nodeRedis(port)
  const ran = new Set<string>()
  // It compares no bodies here: with `payloadValidationJmesPath`, this version refuses every replay from Redis.
  const config = new IdempotencyConfig({
    eventKeyJmesPath: 'key',
    expiresAfterSeconds: RETENTION_MS / 1_000,
  })
  // Its lease is what is left of the time of a Lambda. Outside of one it says at every call that it has none.
  config.registerLambdaContext({ getRemainingTimeInMillis: () => LEASE_MS } as never)
  const work = makeIdempotent(
    async ({ key }: { readonly key: string; readonly body: typeof BODY }) => {
      ran.add(key)
      return RESULT
    },
    {
      persistenceStore: new CachePersistenceLayer({ client: client as never }),
      keyPrefix: 'orders',
      config,
    },
  )
  const run = async (key: string): Promise<boolean> => {
    await work({ key, body: BODY })
    return !ran.delete(key)
  }
  return clientOf(run, () => client.close())
}

/** `run` says whether the result was a stored one. */
function clientOf(run: (key: string) => Promise<boolean>, close: () => Promise<unknown>): IdempotencyClient {
  return {
    async first(key) {
      check(!(await run(key)))
    },
    async replay(key) {
      check(await run(key))
    },
    async close() {
      await close()
    },
  }
}

function check(isSo: boolean): void {
  if (!isSo) throw new Error('A key was not as new, or as old, as it should have been.')
}

export const bare: readonly IdempotencySubject[] = [
  { name: 'bare ioredis', kind: 'raw', open: openBareIoredis },
  { name: 'bare node-redis', kind: 'raw', open: openBareNodeRedis },
]

export const holdfast: readonly IdempotencySubject[] = [
  { name: 'holdfast', kind: 'ours', open: openOnIoredis },
  { name: 'holdfast on node-redis', kind: 'ours', open: openOnNodeRedis },
]

export const peers: readonly IdempotencySubject[] = [
  { name: '@node-idempotency/core', kind: 'peer', open: openNodeIdempotency },
  { name: '@aws-lambda-powertools/idempotency', kind: 'peer', open: openPowertools },
]

/** The first once more: whatever differs between the two is the error of the measurement. */
export const control: IdempotencySubject = {
  name: 'bare ioredis, once more',
  kind: 'raw',
  open: openBareIoredis,
}
