// @module-tag exclusion
import { setTimeout as sleep } from 'node:timers/promises'
import type { TcpProxy } from 'holdfast-servers'
import type { Redis } from 'ioredis'
import { describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import type { RedisClient } from '../../src/backends/redis/client.js'
import { OutcomeUnknownError } from '../../src/core/errors.js'
import { blockFor } from '../../src/testing/block-for.js'
import { claimOf, granted, ioredisTo, ONCE, PATIENT, refused, rejection } from './nx-support.js'
import { Masters, NOBODY, renew } from './redlock-support.js'

const masters = Masters.forThisFile()

describe('votes that come late', () => {
  test('what was taken is given back before a refusal is told', async () => {
    const doors = await masters.proxies()
    const backend = masters.backend({}, doors)
    await backend.open(NOBODY)
    await masters.occupy([0, 1], 'one')
    await masters.occupy([2], 'two')
    for (const proxy of doors.slice(0, 3)) proxy.hold(true)
    const attempt = backend.attempt(claimOf('a'), PATIENT)
    await until('the free nodes have voted', async () => (await masters.placesOf('a', 3)) === '34')
    await sleep(50)
    // The answers that decide come at once, and the way to give back is long.
    for (const proxy of doors.slice(3)) proxy.delay(300)
    for (const proxy of doors.slice(0, 3)) proxy.hold(false)
    refused(await attempt)
    expect(await masters.placesOf('a')).toBe('012')
  })

  test('a vote whose answer is lost is given back all the same', async () => {
    const doors = await masters.proxies()
    const options = { nodeMs: 2_000, maxTtlMs: 600_000 }
    const backend = masters.backend(options, doors)
    await backend.open(NOBODY)
    await masters.occupy([0, 1, 2], 'another program')
    doors[4]?.dropReplies(true)
    // So long a lease does not end by itself here.
    refused(await backend.attempt(claimOf('a', { ttlMs: 600_000 }), PATIENT))
    await until('it is given back', async () => (await masters.placesOf('a', 3)) === '')
  })

  test.each(['refused', 'released'])('a vote that lands after it was %s is given back', async (how) => {
    let land = (): void => {}
    const landing = new Promise<void>((resolve) => {
      land = resolve
    })
    const clients = masters.servers.map((server) => ioredisTo(server)) as Redis[]
    const [last] = clients.slice(-1) as [Redis]
    const call = last.call.bind(last) as (command: string, args: string[]) => Promise<unknown>
    // Whatever comes after the vote overtakes it.
    const slowly = async (command: string, args: string[]): Promise<unknown> => {
      if (args.includes('a')) await landing
      return await call(command, args)
    }
    Object.defineProperty(last, 'call', { value: slowly })
    const backend = masters.backend({ clients: clients as unknown as RedisClient[] })
    const claim = claimOf('name')
    if (how === 'refused') {
      await masters.occupy([0, 1, 2], 'another program', 'name')
      refused(await backend.attempt(claim, PATIENT))
      await masters.free([0, 1, 2], 'name')
    } else {
      granted(await backend.attempt(claim, PATIENT))
      expect(await backend.release(claim)).toBe('released')
    }
    expect(await masters.placesOf('name')).toBe('')
    const deletions = async (): Promise<number> => {
      const { cmdstat_del: stats } = await masters.at(4).info('commandstats')
      return Number(/calls=(\d+)/.exec(stats ?? '')?.[1] ?? 0)
    }
    const before = await deletions()
    land()
    await until('it has landed and is deleted', async () => (await deletions()) > before)
    expect(await masters.placesOf('name')).toBe('')
  })

  test('a quorum that comes too late is given back everywhere', async () => {
    const doors = await masters.proxies()
    const backend = masters.backend({ nodeMs: 300 }, doors)
    await backend.open(NOBODY)
    for (const proxy of doors) proxy.delay(1_000)
    const error = await rejection(backend.attempt(claimOf('a'), PATIENT))
    expect(error).toBeInstanceOf(OutcomeUnknownError)
    await sleep(1_500)
    await until('all of it is given back', async () => (await masters.placesOf('a')) === '')
  })

  test('a quorum whose lease is over when it is read is given back', async () => {
    const backend = masters.backend()
    await backend.open(NOBODY)
    const attempt = rejection(backend.attempt(claimOf('a', { ttlMs: 300 }), ONCE))
    await new Promise((resolve) => setImmediate(resolve))
    // The process stands still while the answers wait to be read.
    blockFor(400)
    const error = await attempt
    expect(error).toBeInstanceOf(OutcomeUnknownError)
    expect(String(error)).toContain('so late')
    expect(await masters.placesOf('a')).toBe('')
  })

  test('answers that were there in time count, though the process stood still at the deadline', async () => {
    const backend = masters.backend({ nodeMs: 1_000 })
    await backend.open(NOBODY)
    const claim = claimOf('a', { ttlMs: 60_000 })
    const attempt = backend.attempt(claim, ONCE)
    await new Promise((resolve) => setImmediate(resolve))
    // Long enough for slow servers to answer meanwhile.
    blockFor(2_000)
    granted(await attempt)
  })

  test('an answer to an earlier attempt cannot undo a later one', async () => {
    const doors = await masters.proxies()
    const backend = masters.backend({}, doors)
    await backend.open(NOBODY)
    await masters.occupy([0, 1, 2], 'another program')
    const slow = doors[4] as TcpProxy
    const claim = claimOf('a')
    slow.holdReplies(true)
    refused(await backend.attempt(claim, PATIENT))
    await masters.free([2])
    // The second needs the vote of the slow node, which first sends its answer to the first.
    const second = backend.attempt(claim, PATIENT)
    await until('the second vote is there', async () => {
      const value = await masters.at(4).command('GET', `${masters.prefix}a`)
      return String(value).startsWith(`${claim.id}:2 `)
    })
    slow.holdReplies(false)
    granted(await second)
    await sleep(200)
    expect(await masters.placesOf('a', 2)).toBe('234')
    expect(await renew(backend, claim)).toBe('renewed')
    expect(await backend.release(claim)).toBe('released')
    expect(await masters.placesOf('a')).toBe('01')
  })

  test('a command of an earlier attempt that lands after a later one changes nothing', async () => {
    const backend = masters.backend()
    const claim = claimOf('a')
    granted(await backend.attempt(claim, ONCE))
    granted(await backend.attempt(claim, ONCE))
    await until('the late votes are in', async () => (await masters.placesOf('a')) === '01234')
    const values = await Promise.all(
      masters.servers.map((server) => server.command('GET', `${masters.prefix}a`)),
    )
    for (const value of values) expect(String(value)).toContain(`${claim.id}:2 `)
    // Another instance counts from 1 again, so its first is the earlier one.
    const late = masters.backend()
    expect(refused(await late.attempt(claim, ONCE)).kind).toBe('refused')
    expect(
      await Promise.all(masters.servers.map((server) => server.command('GET', `${masters.prefix}a`))),
    ).toEqual(values)
    expect(await renew(backend, claim)).toBe('renewed')
  })

  test('a claim that is released while it is asked for is not granted, and leaves nothing', async () => {
    const doors = await masters.proxies()
    const backend = masters.backend({ nodeMs: 5_000 }, doors)
    await backend.open(NOBODY)
    const claim = claimOf('a')
    for (const proxy of doors) proxy.hold(true)
    const attempt = backend.attempt(claim, PATIENT)
    await sleep(50)
    const releasing = backend.release(claim)
    for (const proxy of doors) proxy.hold(false)
    expect((await attempt).kind).toBe('refused')
    await releasing
    await until('nothing is left', async () => (await masters.placesOf('a')) === '')
  })
})
