// @module-tag exclusion
/** Other programs on the same keys: what one holds, the other does not get, both ways. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { missingPrograms, type RedisServer, startRedisMasters } from 'holdfast-servers'
import { Redis } from 'ioredis'
import Redlock from 'redlock'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { redisBackend } from '../../src/backends/redis/backend.js'
import { redlockBackend } from '../../src/backends/redis/redlock.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import { AcquireTimeoutError } from '../../src/core/errors.js'
import { afterwards, freshPrefix, ioredisTo, rejection, TIMEOUT_MS } from './nx-support.js'

const WAIT_MS = TIMEOUT_MS / 2
const TTL_MS = 30_000

let servers: readonly RedisServer[]
let dispose: () => Promise<void>
let name: string
beforeAll(async () => {
  ;({ servers, dispose } = await startRedisMasters(3))
})
afterAll(() => dispose())
beforeEach(() => {
  // Nothing is put before the names here, so the name itself must be fresh.
  name = `${freshPrefix()}interop`
})

async function setNx(): Promise<Locks> {
  const client = ioredisTo(servers[0] as RedisServer)
  const locks = await createLocks(redisBackend({ client, recipe: 'set-nx' }), { ttlMs: TTL_MS })
  afterwards(() => locks.close())
  return locks
}

async function redlock(): Promise<Locks> {
  const clients = servers.map((server) => ioredisTo(server))
  const backend = redlockBackend({ clients, restartDelayMs: 0, nodeMs: 5_000 })
  const locks = await createLocks(backend, { ttlMs: TTL_MS })
  afterwards(() => locks.close())
  return locks
}

function nodeRedlock(doors: readonly RedisServer[], retryCount: number): Redlock {
  const clients = doors.map(({ port }) => new Redis({ port }))
  afterwards(() => clients.forEach((client) => client.disconnect()))
  return new Redlock(clients, { retryCount, retryDelay: 10, retryJitter: 5 })
}

/** Reads, waits and writes, so that two at once would lose a count. */
async function countUp(key: string): Promise<void> {
  const server = servers[0] as RedisServer
  const before = Number(await server.command('GET', key))
  await sleep(1)
  await server.command('SET', key, before + 1)
}

async function countWith(locks: Locks, key: string, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    await locks.mutex(name).run(() => countUp(key), { waitMs: WAIT_MS })
  }
}

interface Case {
  readonly what: string
  readonly ours: () => Promise<Locks>
  readonly doors: () => readonly RedisServer[]
}

const CASES: readonly Case[] = [
  { what: 'set-nx on one server', ours: setNx, doors: () => servers.slice(0, 1) },
  { what: 'redlock on three masters', ours: redlock, doors: () => servers },
]

describe.each(CASES)('node-redlock and $what', ({ ours, doors }) => {
  test('what it holds is not given, and is named another program', async () => {
    const locks = await ours()
    const theirs = await nodeRedlock(doors(), 0).acquire([name], TTL_MS)
    expect(await locks.mutex(name).tryAcquire()).toBeNull()
    const error = await rejection(locks.mutex(name).acquire({ waitMs: 100 }))
    expect(error).toBeInstanceOf(AcquireTimeoutError)
    expect(String(error)).toContain('held by another program')
    expect((await locks.inspect(name)).holders[0]?.owner.client).toBe('foreign')
    const waiting = locks.mutex(name).acquire({ waitMs: WAIT_MS })
    await theirs.release()
    await using hold = await waiting
    hold.assertHeld()
  })

  test('what we hold it does not get, until we give it back', async () => {
    const locks = await ours()
    const hold = await locks.mutex(name).acquire()
    const impatient = nodeRedlock(doors(), 0)
    await rejection(impatient.acquire([name], TTL_MS))
    hold.assertHeld()
    await hold.extend()
    const patient = nodeRedlock(doors(), -1).acquire([name], TTL_MS)
    await hold.release()
    const theirs = await patient
    expect(await locks.mutex(name).tryAcquire()).toBeNull()
    await theirs.release()
    expect(await locks.mutex(name).tryAcquire()).not.toBeNull()
  })

  test('a lease that ran out is free for the other, and is not given back by mistake', async () => {
    const locks = await ours()
    const ended = await locks.mutex(name).acquire({ ttlMs: 300, renew: false })
    const theirs = await nodeRedlock(doors(), -1).acquire([name], TTL_MS)
    expect(ended.isHeld).toBe(false)
    await ended.release()
    expect(await locks.mutex(name).tryAcquire()).toBeNull()
    await theirs.release()
    await nodeRedlock(doors(), 0).acquire([name], 300)
    await using hold = await locks.mutex(name).acquire({ waitMs: WAIT_MS })
    hold.assertHeld()
  })

  test('an operator can take its lock away', async () => {
    const locks = await ours()
    await nodeRedlock(doors(), 0).acquire([name], TTL_MS)
    expect(await locks.evict(name, { reason: 'its program is gone' })).toHaveLength(1)
    expect(await locks.mutex(name).tryAcquire()).not.toBeNull()
  })

  test('a number that only the lock keeps right is right', async () => {
    const key = `${name}:number`
    const [a, b] = await Promise.all([ours(), ours()])
    const theirs = nodeRedlock(doors(), -1)
    const countTheirs = async (): Promise<void> => {
      for (let round = 0; round < 15; round += 1) {
        const lock = await theirs.acquire([name], TTL_MS)
        await countUp(key)
        await lock.release()
      }
    }
    await Promise.all([countWith(a, key, 15), countWith(b, key, 15), countTheirs()])
    expect(await servers[0]?.command('GET', key)).toBe('45')
  })
})

const missing = missingPrograms(['python3-redis'])
const required = /\b(redis|all)\b/.test(process.env.HOLDFAST_REQUIRE_STORES ?? '')
if (missing.length > 0 && !required) {
  test.skip(`redis-py and set-nx (not run: ${missing.join(', ')} is not installed)`)
} else {
  describe('redis-py and set-nx', describeRedisPy)
}

type Python = (...command: readonly unknown[]) => Promise<unknown>

/** A Python program that takes commands. */
async function python(): Promise<Python> {
  const path = fileURLToPath(new URL('./redis-py-lock.py', import.meta.url))
  const port = String(servers[0]?.port)
  const child = spawn('/usr/bin/python3', [path, port], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  afterwards(async () => {
    child.stdin.end()
    await ended
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return async (...command) => {
    child.stdin.write(`${JSON.stringify(command)}\n`)
    const { value, done } = await lines.next()
    if (done === true) throw new Error('The Python program has ended.')
    return JSON.parse(value) as unknown
  }
}

function describeRedisPy(): void {
  test('what it holds is not given, and what we hold it does not get', async () => {
    const [locks, py] = [await setNx(), await python()]
    expect(await py('acquire', name, 30)).toBe(true)
    expect(await locks.mutex(name).tryAcquire()).toBeNull()
    expect((await locks.inspect(name)).holders[0]?.owner.client).toBe('foreign')
    const waiting = locks.mutex(name).acquire({ waitMs: WAIT_MS })
    expect(await py('release', name)).toBe('released')
    const hold = await waiting
    expect(await py('acquire', name, 30)).toBe(false)
    const patient = py('acquire', name, 30, WAIT_MS / 1_000)
    await hold.extend()
    await hold.release()
    expect(await patient).toBe(true)
    expect(await locks.mutex(name).tryAcquire()).toBeNull()
    expect(await py('release', name)).toBe('released')
  })

  test('a lock of it that never expires is waited for, and can be taken away', async () => {
    const [locks, py] = [await setNx(), await python()]
    expect(await py('acquire', name)).toBe(true)
    expect(await locks.mutex(name).tryAcquire({ waitMs: 100 })).toBeNull()
    expect((await locks.inspect(name)).holders[0]?.remainingMs).toBeNull()
    const waiting = locks.mutex(name).acquire({ waitMs: WAIT_MS })
    expect(await locks.evict(name, { reason: 'its program hangs' })).toHaveLength(1)
    await using hold = await waiting
    expect(await py('extend', name, 60)).toBe('not owned')
    expect(await py('release', name)).toBe('not owned')
    await hold.extend()
  })

  test('its extension keeps us out, and its expiry lets us in', async () => {
    const [locks, py] = [await setNx(), await python()]
    expect(await py('acquire', name, 30)).toBe(true)
    expect(await py('extend', name, 60)).toBe(true)
    expect((await locks.inspect(name)).holders[0]?.remainingMs).toBeGreaterThan(30_000)
    expect(await py('extend', name, 0.3)).toBe(true)
    await using hold = await locks.mutex(name).acquire({ waitMs: WAIT_MS })
    expect(await py('release', name)).toBe('not owned')
    await hold.extend()
  })

  test('a number that only the lock keeps right is right', async () => {
    const key = `${name}:number`
    const [a, b, py] = [await setNx(), await setNx(), await python()]
    const counting = [countWith(a, key, 15), countWith(b, key, 15), py('count', name, key, 15)]
    await Promise.all(counting)
    expect(await servers[0]?.command('GET', key)).toBe('45')
  })
}
