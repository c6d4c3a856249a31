/** The least that any lock on one Redis server has to do: set if absent with an end, and delete if still one's own. */

import { createHash, randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { type LockClient, lockClient, type Subject, TTL_MS } from './subject.js'

const DELETE_IF_MINE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`
const DELETE_SHA = createHash('sha1').update(DELETE_IF_MINE).digest('hex')

interface Held {
  readonly key: string
  readonly token: string
}

/** One random part for each process and a number for each lock: the cheapest token that nobody else has. */
function tokens(): () => string {
  const mine = randomBytes(12).toString('hex')
  let last = 0
  return () => {
    last += 1
    return `${mine}${last}`
  }
}

export async function openBare(port: number, ttlMs = TTL_MS): Promise<LockClient> {
  const redis = new Redis(port, '127.0.0.1')
  await redis.script('LOAD', DELETE_IF_MINE)
  const nextToken = tokens()
  const acquire = async (name: string): Promise<Held> => {
    const token = nextToken()
    const answer = await redis.set(name, token, 'PX', ttlMs, 'NX')
    if (answer !== 'OK') throw new Error(`Somebody else has '${name}'.`)
    return { key: name, token }
  }
  const release = ({ key, token }: Held): Promise<unknown> => redis.evalsha(DELETE_SHA, 1, key, token)
  return lockClient(acquire, release, async () => {
    await redis.quit()
  })
}

async function openNodeRedis(port: number): Promise<LockClient> {
  const redis = createClient({ socket: { host: '127.0.0.1', port } })
  await redis.connect()
  await redis.scriptLoad(DELETE_IF_MINE)
  const nextToken = tokens()
  const expiration = { type: 'PX', value: TTL_MS } as const
  const acquire = async (name: string): Promise<Held> => {
    const token = nextToken()
    const answer = await redis.set(name, token, { expiration, condition: 'NX' })
    if (answer !== 'OK') throw new Error(`Somebody else has '${name}'.`)
    return { key: name, token }
  }
  const release = ({ key, token }: Held): Promise<unknown> =>
    redis.evalSha(DELETE_SHA, { keys: [key], arguments: [token] })
  return lockClient(acquire, release, () => redis.close())
}

/**
 * The first of them once more. Whatever differs between the two is the error of the measurement, and no difference of
 * that size means anything.
 */
export const control: Subject = {
  name: 'bare ioredis, once more',
  kind: 'raw',
  pollMs: 0,
  open: (port) => openBare(port),
}

/** They do not wait, so they take part only where nobody has to. */
export const raw: readonly Subject[] = [
  { name: 'bare ioredis', kind: 'raw', pollMs: 0, open: (port) => openBare(port) },
  { name: 'bare node-redis', kind: 'raw', pollMs: 0, open: openNodeRedis },
]
