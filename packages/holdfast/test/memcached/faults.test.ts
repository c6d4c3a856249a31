// @module-tag exclusion
import { setTimeout as sleep } from 'node:timers/promises'
import { memcachedCommand, startProxy, type TcpProxy } from 'holdfast-servers'
import { describe, expect, onTestFinished, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import { OutcomeUnknownError } from '../../src/core/errors.js'
import { abortOf } from '../support/aborts.js'
import { claimOf } from '../support/claims.js'
import { backendAt, isMissing, locksAt, lossOf, RECIPES, rejection, started, whyMissing } from './support.js'

const PATIENCE = { waitMs: 0, leaseMs: 5_000 }
/** So that renewals come every three seconds, and a loss long before the lease is over. */
const TTL_MS = 9_000

async function proxyTo(port: number): Promise<TcpProxy> {
  const proxy = await startProxy(port)
  onTestFinished(() => proxy.dispose())
  return proxy
}

describe.skipIf(isMissing).each(RECIPES)(titled('an item that vanishes (%s)', whyMissing), (recipe) => {
  test('for want of memory is noticed at the next renewal', async () => {
    const server = await started({ memoryMb: 2 })
    const locks = await locksAt(`${server.url}?recipe=${recipe}`, { ttlMs: TTL_MS })
    const hold = await locks.mutex('evicted').acquire()
    const fill = async (): Promise<void> => {
      // Items of about the same size, because each size has memory of its own.
      const value = 'x'.repeat(100)
      const text = Array.from({ length: 40_000 }, (_, index) => `ms filler-${index} 100 T600 q\r\n${value}`)
      await memcachedCommand(server.port, `${text.join('\r\n')}\r\nmn`, /MN\r\n$/, { timeoutMs: 30_000 })
    }
    await until('the item is gone', async () => {
      await fill()
      return (await locks.inspect('evicted')).shape === null
    })
    expect(await lossOf(hold)).toBe('evicted')
    expect(Number((await server.stats())['evictions'])).toBeGreaterThan(0)
    const again = await locks.mutex('evicted').acquire()
    await hold.release()
    again.assertHeld()
  })

  test('by flush_all is noticed at the next renewal, and the next one gets the lock', async () => {
    const server = await started()
    const [one, other] = [
      await locksAt(`${server.url}?recipe=${recipe}`, { ttlMs: TTL_MS }),
      await locksAt(`${server.url}?recipe=${recipe}`),
    ]
    const hold = await one.mutex('flushed').acquire()
    const asked = async (): Promise<number> => Number((await server.stats())['cmd_set'])
    const before = await asked()
    const waiting = other.mutex('flushed').acquire({ waitMs: 60_000 })
    await until('the other has asked', async () => (await asked()) > before)
    await server.flushAll()
    expect(await lossOf(hold)).toBe('evicted')
    const next = await waiting
    expect(await hold.release()).not.toBe('released')
    next.assertHeld()
    expect((await one.inspect('flushed')).holders).toHaveLength(1)
  })

  test('by a restart is noticed at the next renewal', async () => {
    const server = await started()
    const locks = await locksAt(`${server.url}?recipe=${recipe}`, { ttlMs: TTL_MS })
    const hold = await locks.mutex('restarted').acquire()
    await server.kill()
    await server.restart()
    expect(await lossOf(hold)).toBe('evicted')
    const again = await locks.mutex('restarted').acquire({ waitMs: 60_000 })
    again.assertHeld()
  })

  test('by a restart leaves a number that another item has then: that one is not touched', async () => {
    const server = await started()
    const [one, other] = [
      await backendAt(`${server.url}?recipe=${recipe}`),
      await backendAt(`${server.url}?recipe=${recipe}`),
    ]
    const casOf = async (): Promise<string> =>
      (await server.command('mg holdfast:recurring c')).replace(/^HD /, '')
    const mine = claimOf('recurring', { ttlMs: 60_000 })
    expect(await one.attempt(mine, PATIENCE)).toMatchObject({ kind: 'granted' })
    const before = await casOf()
    await server.restart()
    const theirs = claimOf('recurring', { ttlMs: 60_000 })
    await until('the other reaches the server', async () => {
      const verdict = await other.attempt(theirs, PATIENCE).catch(() => null)
      return verdict?.kind === 'granted'
    })
    // The test means something only if the numbers are the same.
    expect(await casOf()).toBe(before)
    const renewal = await until('the first reaches the server', async () => {
      const [answer] = await one.renew([{ claim: mine, fence: null, leaseMs: 60_000 }])
      return answer === 'unknown' ? null : answer
    })
    expect(renewal).toBe('lost')
    expect(await one.release(mine).catch(() => 'gone')).toBe('gone')
    expect((await other.inspect('recurring')).holders).toHaveLength(1)
    expect(await other.renew([{ claim: theirs, fence: null, leaseMs: 60_000 }])).toEqual(['renewed'])
  })

  test('by a restart, and is released before anybody noticed: that of the other stays', async () => {
    const server = await started()
    const [one, other] = [
      await backendAt(`${server.url}?recipe=${recipe}`),
      await backendAt(`${server.url}?recipe=${recipe}`),
    ]
    const mine = claimOf('recurring', { ttlMs: 60_000 })
    await one.attempt(mine, PATIENCE)
    await server.restart()
    const theirs = claimOf('recurring', { ttlMs: 60_000 })
    await until('the other reaches the server', async () => {
      return (await other.attempt(theirs, PATIENCE).catch(() => null))?.kind === 'granted'
    })
    expect(await until('the first reaches the server', () => one.release(mine))).toBe('gone')
    expect((await other.inspect('recurring')).holders).toHaveLength(1)
  })
})

describe.skipIf(isMissing).each(RECIPES)(titled('the way to the server (%s)', whyMissing), (recipe) => {
  test('a server that stands still ends a hold in time, and for good', async () => {
    const server = await started()
    const url = `${server.url}?recipe=${recipe}&requestMs=500`
    const locks = await locksAt(url, { ttlMs: 2_000, requestMs: 600 })
    const hold = await locks.mutex('paused').acquire()
    const since = performance.now()
    const aborted = abortOf(hold)
    await server.pause()
    expect((await aborted) - since).toBeLessThan(2_000)
    expect(await lossOf(hold)).toBe('expired')
    expect(await rejection(locks.mutex('paused').tryAcquire())).toMatchObject({
      code: expect.stringMatching(/OUTCOME_UNKNOWN|BACKEND_UNAVAILABLE/),
    })
    await server.resume()
    const next = await (await locksAt(url)).mutex('paused').acquire({ waitMs: 60_000 })
    expect(hold.isHeld).toBe(false)
    next.assertHeld()
  })

  test('a request whose answer is lost is found to have been done', async () => {
    const server = await started()
    const proxy = await proxyTo(server.port)
    const backend = await backendAt(`memcached://127.0.0.1:${proxy.port}?recipe=${recipe}&requestMs=2000`)
    const claim = claimOf('adopted', { ttlMs: 60_000 })
    proxy.dropReplies(true)
    expect(await rejection(backend.attempt(claim, PATIENCE))).toBeInstanceOf(OutcomeUnknownError)
    expect(await server.command('mg holdfast:adopted')).toBe('HD')
    proxy.dropReplies(false)
    expect(await backend.attempt(claim, PATIENCE)).toMatchObject({ kind: 'granted' })
    expect((await backend.inspect('adopted')).holders).toHaveLength(1)
    expect(await backend.release(claim)).toBe('released')
    expect(await server.command('mg holdfast:adopted')).toBe('EN')
  })

  test('what is cut off is not reported as held or free, and is put right afterwards', async () => {
    const server = await started()
    const proxy = await proxyTo(server.port)
    const locks = await locksAt(`memcached://127.0.0.1:${proxy.port}?recipe=${recipe}`, { ttlMs: TTL_MS })
    const hold = await locks.mutex('cut').acquire()
    proxy.holdReplies(true)
    const trying = rejection(locks.mutex('other').tryAcquire())
    await sleep(100)
    proxy.cut()
    expect(await trying).toBeInstanceOf(OutcomeUnknownError)
    proxy.holdReplies(false)
    // The claim that nobody heard of is given back over a new connection.
    await until('it is free', async () => (await server.command('mg holdfast:other')) === 'EN')
    await sleep(TTL_MS / 2)
    hold.assertHeld()
    expect(await hold.release()).toBe('released')
  })

  test('a request that arrives after its claim was given back is undone', async () => {
    const server = await started()
    const backend = await backendAt(`${server.url}?recipe=${recipe}&requestMs=2000`)
    const claim = claimOf('late', { ttlMs: 60_000 })
    await server.pause()
    expect(await rejection(backend.attempt(claim, PATIENCE))).toBeInstanceOf(OutcomeUnknownError)
    // Nothing says in which order the server comes to what waits on two connections.
    const releasing = backend.release(claim).catch((error: unknown) => error)
    await server.resume()
    await releasing
    await sleep(100)
    await backend.release(claim).catch(() => null)
    await backend.release(claim)
    expect(await server.command('mg holdfast:late')).toBe('EN')
  })
})
