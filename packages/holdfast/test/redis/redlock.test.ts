// @module-tag exclusion
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import type { RedisClient } from '../../src/backends/redis/client.js'
import { type RedlockOptions, redlockBackend } from '../../src/backends/redis/redlock.js'
import { createLocks } from '../../src/client/client.js'
import { InvalidInputError, OutcomeUnknownError, UnsupportedError } from '../../src/core/errors.js'
import {
  claimOf,
  granted,
  ioredisTo,
  nodeRedisTo,
  ONCE,
  PATIENT,
  refused,
  rejection,
  TIMEOUT_MS,
} from './nx-support.js'
import { Masters, NOBODY, renew } from './redlock-support.js'

const masters = Masters.forThisFile()

describe('what is given', () => {
  const client = (): RedisClient => ioredisTo(masters.at(0))

  test.each([
    ['no clients', () => ({ clients: [] })],
    ['one client', () => ({ clients: [client()] })],
    ['two clients', () => ({ clients: [client(), client()] })],
    [
      'one client three times',
      () => {
        const same = client()
        return { clients: [same, same, same] }
      },
    ],
    ['something that is no client', () => ({ clients: [client(), client(), {} as RedisClient] })],
    ['no array', () => ({ clients: 'abc' as unknown as RedisClient[] })],
    ['a wrong prefix', () => ({ clients: [client(), client(), client()], prefix: 'a b' })],
    ['a wrong nodeMs', () => ({ clients: [client(), client(), client()], nodeMs: 0 })],
    ['a wrong maxTtlMs', () => ({ clients: [client(), client(), client()], maxTtlMs: 10 })],
    ['a wrong restartDelayMs', () => ({ clients: [client(), client(), client()], restartDelayMs: -1 })],
    ['an unknown option', () => ({ clients: [client(), client(), client()], quorum: 1 }) as RedlockOptions],
  ])('%s is refused', (_what, optionsOf) => {
    expect(() => redlockBackend(optionsOf())).toThrow(InvalidInputError)
  })

  test('the guarantees say what it is, and the longest lease bounds the default', async () => {
    const backend = masters.backend({ maxTtlMs: 9_000 })
    expect(backend.guarantees).toMatchObject({
      fencing: 'none',
      safety: 'best-effort',
      fair: false,
      weights: 'none',
      shows: 'claims',
    })
    expect(backend.guarantees.ttlMaxMs).toBe(9_000)
    await expect(createLocks(backend, { requireFence: true })).rejects.toThrow(UnsupportedError)
    const locks = await createLocks(backend)
    const hold = await locks.mutex('a').acquire()
    expect(hold.remainingMs).toBeLessThanOrEqual(9_000)
    expect(() => hold.fence).toThrow(UnsupportedError)
    await locks.close()
  })

  test('two clients to one server are noticed', async () => {
    const [one, two] = [masters.at(0), masters.at(1)]
    const twice = masters.backend({}, [one, one, two])
    expect(await rejection(twice.open(NOBODY))).toBeInstanceOf(UnsupportedError)
    const error = await rejection(masters.backend({}, [one, one, one]).attempt(claimOf('a'), ONCE))
    expect(error).toBeInstanceOf(UnsupportedError)
    expect(await masters.placesOf('a')).toBe('')
  })
})

describe('a majority', () => {
  test.each([
    ['ioredis', async () => masters.servers.map((server) => ioredisTo(server))],
    ['node-redis', () => Promise.all(masters.servers.map((server) => nodeRedisTo(server)))],
  ])('all nodes have the lock, and lose it together (%s)', async (_name, clientsOf) => {
    const backend = redlockBackend({ clients: await clientsOf(), prefix: masters.prefix, restartDelayMs: 0 })
    await backend.open(NOBODY)
    const claim = claimOf('a')
    expect(granted(await backend.attempt(claim, ONCE))).toEqual({
      kind: 'granted',
      fence: null,
      leaseMs: 30_000,
      weight: 1,
    })
    await until('the late votes are in', async () => (await masters.placesOf('a')) === '01234')
    const verdict = refused(await backend.attempt(claimOf('a'), PATIENT))
    expect(verdict.holder?.owner).toEqual(claim.owner)
    expect(verdict.retryAfterMs).toBeGreaterThan(0)
    expect(await renew(backend, claim)).toBe('renewed')
    expect(await backend.release(claim)).toBe('released')
    expect(await masters.placesOf('a')).toBe('')
    expect(await backend.release(claim)).toBe('gone')
    expect(await renew(backend, claim)).toBe('lost')
  })

  test('a lock that one node has forgotten still excludes, and is renewed', async () => {
    const backend = masters.backend()
    const claim = claimOf('a')
    granted(await backend.attempt(claim, ONCE))
    await until('the late votes are in', async () => (await masters.placesOf('a')) === '01234')
    for (const index of [0, 1]) {
      await masters.at(index).command('DEL', `${masters.prefix}a`)
      refused(await backend.attempt(claimOf('a'), ONCE))
      expect(await renew(backend, claim)).toBe('renewed')
    }
    // What is gone is not taken again: nobody could tell whether somebody else had it in between.
    expect(await masters.placesOf('a')).toBe('234')
    await masters.free([2])
    expect(await renew(backend, claim)).toBe('lost')
    const next = claimOf('a')
    granted(await backend.attempt(next, ONCE))
    await backend.release(claim)
    expect(await masters.placesOf('a', 0, 3)).toBe('012')
    expect(await backend.release(next)).toBe('released')
  })

  test('each claim of a batch has its own answer', async () => {
    const backend = masters.backend()
    const claims = ['a', 'b', 'c'].map((name) => claimOf(name))
    for (const claim of claims) granted(await backend.attempt(claim, ONCE))
    await masters.free([0, 1, 2, 3, 4], 'b')
    await masters.free([0, 1], 'c')
    const requests = claims.map((claim) => ({ claim, fence: null, leaseMs: 30_000 }))
    expect(await backend.renew(requests)).toEqual(['renewed', 'lost', 'renewed'])
    await masters.pause(4)
    const slow = masters.backend({ nodeMs: 1_000 })
    const [d, e] = [claimOf('d'), claimOf('e')]
    granted(await slow.attempt(d, ONCE))
    granted(await slow.attempt(e, ONCE))
    await masters.free([0, 1], 'e')
    const both = [d, e].map((claim) => ({ claim, fence: null, leaseMs: 30_000 }))
    expect(await slow.renew(both)).toEqual(['renewed', 'unknown'])
    expect(await rejection(slow.renew(both.slice(1)))).toBeInstanceOf(OutcomeUnknownError)
  })

  test('who holds is who has a majority, and only that is listed and evicted', async () => {
    const backend = masters.backend()
    const claim = claimOf('held', { note: 'mine' })
    granted(await backend.attempt(claim, ONCE))
    await masters.occupy([0, 1], 'a minority', 'half')
    await masters.occupy([0, 1, 2], 'another program', 'foreign')
    const [holder] = (await backend.inspect('held')).holders
    expect(holder).toMatchObject({ note: 'mine', fence: null, owner: claim.owner })
    expect(holder?.remainingMs).toBeGreaterThan(0)
    expect((await backend.inspect('half')).holders).toEqual([])
    const [foreign] = (await backend.inspect('foreign')).holders
    expect(foreign?.owner.client).toBe('foreign')
    const names: string[] = []
    for await (const { resource } of backend.list('')) names.push(resource)
    expect(names).toEqual(['held'])
    expect(await backend.evict('held', 'no-such-ref')).toBe('gone')
    expect(await backend.evict('held', holder?.ref ?? '')).toBe('evicted')
    expect(await masters.placesOf('held')).toBe('')
    expect(await backend.evict('foreign', foreign?.ref ?? '')).toBe('evicted')
    expect(await masters.placesOf('foreign')).toBe('')
    expect(await renew(backend, claim)).toBe('lost')
  })
})

describe('a split vote', () => {
  test('gives back what it took before it says no, and names nobody', async () => {
    const backend = masters.backend()
    await masters.occupy([0, 1], 'one')
    await masters.occupy([2], 'two')
    const verdict = refused(await backend.attempt(claimOf('a'), PATIENT))
    expect(verdict).toEqual({ kind: 'refused', retryAfterMs: null, holder: null })
    expect(await masters.placesOf('a')).toBe('012')
  })

  test('of four, an even split ends at once', async () => {
    const NODE_MS = 15_000
    const backend = masters.backend({ nodeMs: NODE_MS }, masters.servers.slice(0, 4))
    await masters.occupy([0, 1], 'one')
    // An attempt that does not end at the split lasts until the deadline of the nodes.
    let isDue = false
    const due = setTimeout(() => {
      isDue = true
    }, NODE_MS)
    const verdict = refused(await backend.attempt(claimOf('a', { ttlMs: 60_000 }), PATIENT))
    expect(isDue).toBe(false)
    clearTimeout(due)
    expect(verdict).toEqual({ kind: 'refused', retryAfterMs: null, holder: null })
    expect(await masters.placesOf('a')).toBe('01')
    await masters.free([1])
    granted(await backend.attempt(claimOf('a'), ONCE))
  })

  test('contenders that split again and again come to an end, one at a time', async () => {
    const clients = await Promise.all([1, 2, 3, 4].map(() => createLocks(masters.backend())))
    let inside = 0
    let rounds = 0
    const work = async (index: number): Promise<void> => {
      for (let round = 0; round < 5; round += 1) {
        await clients[index]?.mutex('busy').run(
          async (hold) => {
            inside += 1
            expect(inside).toBe(1)
            await sleep(1)
            inside -= 1
            hold.assertHeld()
            rounds += 1
          },
          { waitMs: TIMEOUT_MS / 2 },
        )
      }
    }
    await Promise.all([0, 1, 2, 3].map(work))
    expect(rounds).toBe(20)
    await Promise.all(clients.map((locks) => locks.close()))
    await until('nothing is left', async () => (await masters.placesOf('busy')) === '')
  })
})
