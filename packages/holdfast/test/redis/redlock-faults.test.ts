// @module-tag exclusion
import { setTimeout as sleep } from 'node:timers/promises'
import { startRedisMasters } from 'holdfast-servers'
import { describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { redlockBackend } from '../../src/backends/redis/redlock.js'
import { createLocks } from '../../src/client/client.js'
import { BackendUnavailableError, OutcomeUnknownError, UnsupportedError } from '../../src/core/errors.js'
import {
  afterwards,
  claimOf,
  granted,
  ioredisTo,
  ONCE,
  PATIENT,
  refused,
  rejection,
  TIMEOUT_MS,
} from './nx-support.js'
import { Masters, NOBODY, renew } from './redlock-support.js'

const masters = Masters.forThisFile()

describe('nodes that hang', () => {
  test('a minority costs nothing but its own votes', async () => {
    const backend = masters.backend({ nodeMs: 1_000 })
    await masters.pause(3, 4)
    const claim = claimOf('a')
    granted(await backend.attempt(claim, ONCE))
    refused(await backend.attempt(claimOf('a'), ONCE))
    expect(await renew(backend, claim)).toBe('renewed')
    expect((await backend.inspect('a')).holders).toHaveLength(1)
    expect(await backend.release(claim)).toBe('released')
    // One deadline of a node may pass, and then it is known to be silent. Where it is waited for, every round takes at
    // least one deadline.
    const rounds: number[] = []
    for (let round = 0; round < 5; round += 1) {
      const since = performance.now()
      granted(await backend.attempt(claim, ONCE))
      expect(await backend.release(claim)).toBe('released')
      rounds.push(performance.now() - since)
    }
    expect(Math.min(...rounds), 'a silent node is waited for').toBeLessThan(1_000)
    await masters.resume(3, 4)
    await until('the votes that came late are given back', async () => (await masters.placesOf('a')) === '')
    granted(await backend.attempt(claimOf('b'), ONCE))
    await until('they vote again', async () => (await masters.placesOf('b')) === '01234')
  })

  test('a vote that comes late is part of the lock, and is released with it', async () => {
    const backend = masters.backend({ nodeMs: 2_000 })
    await masters.pause(4)
    const claim = claimOf('a')
    granted(await backend.attempt(claim, ONCE))
    await masters.resume(4)
    await until('the late vote is in', async () => (await masters.placesOf('a')) === '01234')
    await sleep(100)
    expect(await masters.placesOf('a')).toBe('01234')
    await masters.free([0, 1])
    expect(await renew(backend, claim)).toBe('renewed')
    expect(await backend.release(claim)).toBe('released')
    expect(await masters.placesOf('a')).toBe('')
  })

  test('without a majority nothing is known, nothing is kept, and nobody is said to hold', async () => {
    const backend = masters.backend({ nodeMs: 1_000 })
    await masters.pause(2, 3, 4)
    for (const patience of [ONCE, PATIENT]) {
      const error = await rejection(backend.attempt(claimOf('a'), patience))
      expect(error).toBeInstanceOf(OutcomeUnknownError)
      expect(String(error)).toContain('2 of 5')
      expect(await masters.placesOf('a', 0, 2)).toBe('')
    }
    expect(await rejection(backend.inspect('a'))).toBeInstanceOf(OutcomeUnknownError)
    expect(await rejection(backend.release(claimOf('a')))).toBeInstanceOf(OutcomeUnknownError)
    expect(await rejection(backend.open(NOBODY))).toBeInstanceOf(OutcomeUnknownError)
    await masters.resume(2, 3, 4)
    await until('what they took is given back', async () => (await masters.placesOf('a')) === '')
    granted(await backend.attempt(claimOf('a'), ONCE))
  })

  test('a renewal without a majority fails, and with it again succeeds', async () => {
    const backend = masters.backend({ nodeMs: 1_000 })
    const claim = claimOf('a')
    granted(await backend.attempt(claim, ONCE))
    await masters.pause(2, 3, 4)
    expect(await rejection(renew(backend, claim))).toBeInstanceOf(OutcomeUnknownError)
    await masters.resume(2)
    await until('a majority answers', async () => {
      return (await renew(backend, claim).catch(() => 'failed')) === 'renewed'
    })
    await masters.resume(3, 4)
    expect(await backend.release(claim)).toBe('released')
  })

  test('the holder is told before the lease is over, and another gets the lock after it', async () => {
    const [a, b] = await Promise.all(
      [1, 2].map(() => createLocks(masters.backend({ nodeMs: 500 }), { ttlMs: 3_000, outageMs: TIMEOUT_MS })),
    )
    const hold = await a?.mutex('a').acquire()
    await masters.pause(2, 3, 4)
    await until('the signal of the hold aborts', async () => hold?.signal.aborted === true)
    await masters.resume(2, 3, 4)
    const next = await b?.mutex('a').acquire({ waitMs: TIMEOUT_MS / 2 })
    expect(hold?.isHeld).toBe(false)
    next?.assertHeld()
    await hold?.release()
    next?.assertHeld()
    await Promise.all([a?.close(), b?.close()])
  })
})

describe('nodes that restart', () => {
  test('fresh nodes have no say, and the error tells until when', async () => {
    const backend = masters.backend({ restartDelayMs: 3_600_000 })
    await backend.open(NOBODY)
    const error = await rejection(backend.attempt(claimOf('a'), PATIENT))
    expect(error).toBeInstanceOf(BackendUnavailableError)
    expect(String(error)).toMatch(/3 restarted less than 3600 s ago.* wait \d+ s, or set `restartDelayMs: 0`/)
    expect(await masters.placesOf('a')).toBe('')
  })

  test('after a while they have', async () => {
    const backend = masters.backend({ restartDelayMs: 1_000 })
    await until('they have a say', async () => {
      const verdict = await backend.attempt(claimOf('a'), PATIENT).catch(() => null)
      return verdict?.kind === 'granted'
    })
  })

  test('a node that has forgotten a lock cannot help to give it twice', async () => {
    // So that there is room for a slow machine between the uptime of the old nodes and that of the new one.
    const ages = async (): Promise<number[]> =>
      await Promise.all(
        masters.servers.map(async (server) => Number((await server.info('server')).uptime_in_seconds)),
      )
    await until('the nodes are old enough', async () => Math.min(...(await ages())) >= 15)
    const restartDelayMs = (Math.min(...(await ages())) - 2) * 1_000
    const first = masters.backend({ restartDelayMs })
    const claim = claimOf('a', { ttlMs: 60_000 })
    granted(await first.attempt(claim, ONCE))
    await until('the late votes are in', async () => (await masters.placesOf('a')) === '01234')
    // Two do not have it, as if they had been away; one that has it restarts, and has forgotten it.
    await masters.free([3, 4])
    await masters.at(2).kill()
    await masters.at(2).restart()
    expect(await masters.placesOf('a')).toBe('01')
    const careful = masters.backend({ restartDelayMs })
    refused(await careful.attempt(claimOf('a'), ONCE))
    expect(await masters.placesOf('a')).toBe('01')
    // Without the delay it is given twice: that is what the delay is for.
    const careless = masters.backend({ restartDelayMs: 0 })
    granted(await careless.attempt(claimOf('a'), ONCE))
    expect(await renew(first, claim)).toBe('lost')
  })

  test('nodes that do not tell how long they run have no say either', async () => {
    for (const server of masters.servers)
      await server.command('ACL', 'SETUSER', 'narrow', 'on', '>word', '~*', '+@all', '-info')
    afterwards(() => Promise.all(masters.servers.map((server) => server.command('ACL', 'DELUSER', 'narrow'))))
    const access = { username: 'narrow', password: 'word', enableReadyCheck: false }
    const clients = masters.servers.map((server) => ioredisTo(server, access))
    const error = await rejection(
      redlockBackend({ clients, prefix: masters.prefix }).attempt(claimOf('a'), ONCE),
    )
    expect(error).toBeInstanceOf(BackendUnavailableError)
    expect(String(error)).toContain('3 do not say how long they run')
    granted(
      await redlockBackend({ clients, prefix: masters.prefix, restartDelayMs: 0 }).attempt(
        claimOf('a'),
        ONCE,
      ),
    )
  })
})

describe('nodes in trouble', () => {
  test('a minority may be down, have something else there, or take no writes', async () => {
    const backend = masters.backend({ nodeMs: 1_000 })
    await masters.at(0).command('HSET', `${masters.prefix}a`, 'field', 'value')
    await masters.at(1).command('REPLICAOF', '127.0.0.1', '1')
    afterwards(() => masters.at(1).command('REPLICAOF', 'NO', 'ONE'))
    const claim = claimOf('a')
    granted(await backend.attempt(claim, ONCE))
    expect(await renew(backend, claim)).toBe('renewed')
    expect(await backend.release(claim)).toBe('released')
    expect(await masters.at(0).command('HGET', `${masters.prefix}a`, 'field')).toBe('value')
  })

  test('a majority with something else there is a mistake, and is told', async () => {
    const backend = masters.backend()
    for (const index of [0, 1, 2])
      await masters.at(index).command('HSET', `${masters.prefix}a`, 'field', 'value')
    expect(await rejection(backend.attempt(claimOf('a'), PATIENT))).toBeInstanceOf(UnsupportedError)
    expect(await masters.placesOf('a')).toBe('012')
  })

  test('a majority that is gone is not a holder, and a lock that was held ends in time', async () => {
    const started = await startRedisMasters(3)
    afterwards(() => started.dispose())
    const clients = started.servers.map((server) => ioredisTo(server, { enableOfflineQueue: false }))
    const ready = async (): Promise<boolean> =>
      (await backend.open(NOBODY).catch(() => 'not yet')) === undefined
    const backend = redlockBackend({ clients, prefix: masters.prefix, restartDelayMs: 0, nodeMs: 1_000 })
    await until('the clients are connected', ready)
    const claim = claimOf('a')
    granted(await backend.attempt(claim, ONCE))
    for (const server of started.servers.slice(0, 2)) await server.kill()
    await until('the clients have noticed', async () => {
      return (await rejection(backend.attempt(claimOf('b'), PATIENT))) instanceof BackendUnavailableError
    })
    expect(await rejection(renew(backend, claim))).toBeInstanceOf(BackendUnavailableError)
  })
})
