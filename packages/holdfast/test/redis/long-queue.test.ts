// @module-tag exclusion
import { type RedisServer, startRedis } from 'holdfast-servers'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { linkOf } from '../../src/backends/redis/driver.js'
import type { LineBackend } from '../../src/backends/redis/line.js'
import type { Claim, Sink, Verdict } from '../../src/core/backend.js'
import { refOf } from '../../src/core/names.js'
import { claimOf, NO_SINK } from '../support/claims.js'
import { lineAt, lineOver } from './line-histories.js'

let server: RedisServer
let client: Redis

beforeAll(async () => {
  server = await startRedis()
  client = new Redis(server.port)
})

afterAll(async () => {
  client.disconnect()
  await server.dispose()
})

const PATIENT = { waitMs: 60_000, leaseMs: 60_000 }
const READERS = { kind: 'read-write', limit: 2 ** 31 - 1 } as const

async function fenceOf(verdict: Promise<Verdict>): Promise<bigint> {
  return ((await verdict) as { fence: bigint }).fence
}

/** Claims of one mutex, of which the first holds. */
async function queueOf(backend: LineBackend, resource: string, count: number): Promise<readonly Claim[]> {
  const claims = Array.from({ length: count }, () => claimOf(resource))
  await Promise.all(claims.map((claim) => backend.attempt(claim, PATIENT)))
  return claims
}

/** What a sink hears. */
function listener(): { sink: Sink; granted: string[]; wanted: string[] } {
  const granted: string[] = []
  const wanted: string[] = []
  const sink = {
    ...NO_SINK,
    granted: (id: string) => void granted.push(id),
    wanted: (id: string) => void wanted.push(id),
  }
  return { sink, granted, wanted }
}

describe('a long queue in Redis', () => {
  test('serves 1,000 waiters in order from a sorted set, and ends as a text', async () => {
    const { backend, prefix } = lineOver(linkOf(client))
    const { sink, granted } = listener()
    await backend.open(sink)
    const claims = await queueOf(backend, 'a', 1_000)
    expect(await client.type(`${prefix}a`)).toBe('zset')
    expect(await backend.attempt(claims[999] as Claim, PATIENT)).toMatchObject({
      kind: 'waiting',
      ahead: 999,
    })
    const { holders, waiters } = await backend.inspect('a')
    expect([...holders, ...waiters].map(({ ref }) => ref)).toEqual(claims.map(({ id }) => refOf(id)))
    for (const claim of claims) await backend.release(claim)
    await until('all were told', () => granted.length === 999)
    expect(granted).toEqual(claims.slice(1).map(({ id }) => id))
    expect(await client.type(`${prefix}a`)).toBe('string')
    await backend.close()
  })

  test('is read from a text that an earlier version has written, with claims that have expired in it', async () => {
    const { backend, prefix } = lineOver(linkOf(client))
    await backend.open(NO_SINK)
    const now = Date.now()
    const claims = Array.from({ length: 3_000 }, () => claimOf('old'))
    const fences = claims.map((_, index) => BigInt(now) * 1_000n + BigInt(index))
    // Every third has expired, and so has the one that held the lock.
    const ends = claims.map((_, index) => (index % 3 === 0 ? now - 1_000 : now + 60_000))
    const lines = claims.map(({ id }, index) => `${id} ${fences[index]} 1 ${ends[index]} gone box 7 c1 -\n`)
    const head = `mutex 1 ${fences.at(-1)} ${claims.length} ${now + 60_000}\n`
    await client.set(`${prefix}old`, head + lines.join(''), 'PX', 120_000)
    expect(await backend.attempt(claims[2_999 - 1] as Claim, PATIENT)).toMatchObject({
      kind: 'waiting',
      fence: fences[2_999 - 1],
      ahead: 1_998,
    })
    expect(await client.type(`${prefix}old`)).toBe('zset')
    expect(await backend.attempt(claims[1] as Claim, PATIENT)).toMatchObject({ kind: 'granted' })
    expect(await fenceOf(backend.attempt(claimOf('old'), PATIENT))).toBeGreaterThan(fences.at(-1) as bigint)
    await backend.close()
  })

  test('keeps no readers that have expired, though no writer comes', async () => {
    const { backend, prefix } = lineOver(linkOf(client))
    await backend.open(NO_SINK)
    const dying = { shape: READERS, ttlMs: 50 }
    for (let wave = 0; wave < 4; wave += 1) {
      await Promise.all(Array.from({ length: 200 }, () => backend.attempt(claimOf('r', dying), PATIENT)))
    }
    await until('all have expired', async () => (await backend.inspect('r')).holders.length === 0)
    expect(await backend.attempt(claimOf('r', { shape: READERS }), PATIENT)).toMatchObject({
      kind: 'granted',
    })
    expect(await client.memory('USAGE', `${prefix}r`)).toBeLessThan(1_000)
    // As few as fit a text are not looked at one by one, but they do not add up either.
    for (let wave = 0; wave < 20; wave += 1) {
      await Promise.all(Array.from({ length: 20 }, () => backend.attempt(claimOf('s', dying), PATIENT)))
      await until('they have expired', async () => (await backend.inspect('s')).holders.length === 0)
    }
    expect(await client.memory('USAGE', `${prefix}s`)).toBeLessThan(16_384)
    await backend.close()
  })

  test('tells a waiter by the answer to its renewal, where the message was lost', async () => {
    const { backend, prefix } = lineOver(linkOf(client))
    const { sink, granted } = listener()
    await backend.open(sink)
    // The release notifies the waiter over a channel that the waiter does not listen to.
    const elsewhere = lineAt(linkOf(client), prefix, 'push', 'elsewhere:')
    for (const count of [2, 40]) {
      const holder = claimOf(`n${count}`)
      await elsewhere.attempt(holder, PATIENT)
      const claims = await queueOf(backend, `n${count}`, count - 1)
      const claim = claims[0] as Claim
      const fence = (await backend.inspect(claim.resource)).waiters[0]?.fence ?? null
      await elsewhere.release(holder)
      const waiting = claims.map((each) => ({
        claim: each,
        fence: each === claim ? fence : 0n,
        leaseMs: 60_000,
      }))
      expect((await backend.renew(waiting))[0]).toBe('renewed')
    }
    expect(granted).toHaveLength(2)
    await backend.close()
  })

  test('notifies the holders of a waiter over another channel', async () => {
    const { backend, prefix } = lineOver(linkOf(client))
    const { sink, wanted } = listener()
    await backend.open(sink)
    const shape = { kind: 'semaphore', limit: 40 } as const
    const holders = Array.from({ length: 40 }, () => claimOf('w', { shape }))
    for (const claim of holders) await backend.attempt(claim, PATIENT)
    const other = lineAt(linkOf(client), prefix, 'other')
    expect(await other.attempt(claimOf('w', { shape }), PATIENT)).toMatchObject({
      kind: 'waiting',
      ahead: 40,
    })
    await until('all were told', () => new Set(wanted).size === 40)
    await backend.close()
  })

  test('is recognised without an error that the server counts, after the first answer', async () => {
    const { backend } = lineOver(linkOf(client))
    await backend.open(NO_SINK)
    const claims = await queueOf(backend, 'e', 60)
    const errors = async (): Promise<string | undefined> => (await server.info('stats')).total_error_replies
    const before = await errors()
    for (const claim of claims.slice(0, 40)) await backend.attempt(claim, PATIENT)
    expect(await errors()).toBe(before)
    await backend.close()
  })

  test('stays a text for a user who may use no sorted sets', async () => {
    const { prefix } = lineOver(linkOf(client))
    const rights = '+evalsha +eval +time +get +set +publish +subscribe +unsubscribe +info'
    const some = '+pttl +pexpire +del +zadd +zrange'
    await server.command(...`ACL SETUSER old on >secret ~* &* ${rights} ${some}`.split(' '))
    const old = new Redis(server.port, { username: 'old', password: 'secret' })
    const backend = lineAt(linkOf(old), prefix, 'push')
    const claims = await queueOf(backend, 'a', 50)
    expect(await client.type(`${prefix}a`)).toBe('string')
    for (const claim of claims) expect(await backend.release(claim)).toBe('released')
    old.disconnect()
  })

  test('is not confused with a sorted set of another program', async () => {
    const { backend, prefix } = lineOver(linkOf(client))
    await client.zadd(`${prefix}z`, 1, 'one', 2, 'two')
    await expect(backend.attempt(claimOf('z'), PATIENT)).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    expect(await client.zcard(`${prefix}z`)).toBe(2)
  })
})
