// @module-tag exclusion
import { setTimeout as sleep } from 'node:timers/promises'
import { startConsul, startProxy } from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import { openConsul } from '../../src/backends/consul/open.js'
import { createLocks } from '../../src/client/client.js'
import { InvalidInputError, LockLostError } from '../../src/core/errors.js'
import { connectTo, isMissing, keysOf, QUICK, serverOfFile, sessionsOf, whyMissing } from './support.js'

const server = serverOfFile()

describe.skipIf(isMissing)(titled('the end of a session', whyMissing), () => {
  it('is noticed by a live process, which is told and can begin anew', async () => {
    const consul = await server()
    const locks = await connectTo(`${consul.url}/ended?${QUICK}`, { ttlMs: 6_000 })
    const [one, two] = [await locks.mutex('one').acquire(), await locks.mutex('two').acquire()]
    const [key] = await keysOf(consul, 'ended/one')
    await consul.request('PUT', `/v1/session/destroy/${key?.Session}`)
    await until('both signals abort', () => one.signal.aborted && two.signal.aborted)
    expect((one.signal.reason as LockLostError).reason).toBe('session-ended')
    const again = await locks.mutex('one').acquire({ waitMs: 60_000 })
    expect(again.fence > one.fence).toBe(true)
    again.assertHeld()
    await Promise.all([one.release(), two.release()])
    again.assertHeld()
    expect((await keysOf(consul, 'ended/')).length).toBe(1)
  })

  it('a thousand times over leaves no two holders, rising fences and nothing behind', {
    timeout: 400_000,
  }, async () => {
    const consul = await server()
    const url = `${consul.url}/loop?${QUICK}`
    const [a, b] = [await connectTo(url), await connectTo(url)]
    let last = 0n
    for (let round = 0; round < 1_000; round += 1) {
      const [victim, next] = round % 2 === 0 ? [a, b] : [b, a]
      const hold = await victim.mutex('hot').acquire({ waitMs: 60_000 })
      expect(hold.fence > last).toBe(true)
      last = hold.fence
      const [key] = await keysOf(consul, 'loop/')
      await consul.request('PUT', `/v1/session/destroy/${key?.Session}`)
      const successor = await next.mutex('hot').acquire({ waitMs: 60_000 })
      expect(successor.fence > last).toBe(true)
      last = successor.fence
      // The one who lost it cannot take it away from the next by giving it back.
      expect(await hold.release()).not.toBe('released')
      await successor.extend()
      expect(await successor.release()).toBe('released')
    }
    expect(await keysOf(consul, 'loop/')).toEqual([])
  })

  it('by its ttl tells the holder before anybody else gets in', async () => {
    const consul = await server()
    const proxy = await startProxy(consul.port)
    onTestFinished(() => proxy.dispose())
    const cut = await connectTo(`consul://127.0.0.1:${proxy.port}/expired?${QUICK}`, {
      ttlMs: 2_000,
      requestMs: 500,
    })
    const other = await connectTo(`${consul.url}/expired?${QUICK}`)
    const hold = await cut.mutex('it').acquire()
    let abortedAt = Number.POSITIVE_INFINITY
    hold.signal.addEventListener('abort', () => {
      abortedAt = performance.now()
    })
    const cutAt = performance.now()
    proxy.hold(true)
    const next = await other.mutex('it').acquire({ waitMs: 60_000 })
    expect(abortedAt).toBeLessThan(performance.now())
    expect(performance.now() - cutAt).toBeGreaterThan(1_000)
    expect(hold.isHeld).toBe(false)
    expect(next.fence > hold.fence).toBe(true)
    proxy.hold(false)
    await hold.release()
    await next.extend()
    await next.release()
  })
})

describe.skipIf(isMissing)(titled('an operator', whyMissing), () => {
  it('who deletes the key is noticed at the next renewal, and other locks stay', async () => {
    const consul = await server()
    const locks = await connectTo(`${consul.url}/operator?${QUICK}`, { ttlMs: 6_000 })
    await using kept = await locks.mutex('kept').acquire()
    const hold = await locks.mutex('deleted').acquire()
    await consul.request('DELETE', '/v1/kv/operator/deleted/.lock')
    await until('the signal of the hold aborts', () => hold.signal.aborted)
    expect((hold.signal.reason as LockLostError).reason).toBe('evicted')
    await kept.extend()
    kept.assertHeld()
  })

  it('who breaks a lock of `consul lock` or of ours leaves its session alone', async () => {
    const consul = await server()
    const locks = await connectTo(`${consul.url}/evict?${QUICK}`, { ttlMs: 10_000 })
    await using kept = await locks.mutex('kept').acquire()
    const hold = await locks.mutex('broken').acquire()
    const other = await connectTo(`${consul.url}/evict?${QUICK}`)
    expect((await other.evict('broken', { reason: 'a test' })).length).toBe(1)
    await using next = await other.mutex('broken').acquire({ waitMs: 0 })
    expect(await hold.release()).toBe('gone')
    next.assertHeld()
    await kept.extend()
  })

  it('who takes a holder out of the record of a semaphore is noticed', async () => {
    const consul = await server()
    const locks = await connectTo(`${consul.url}/record?${QUICK}`, { ttlMs: 6_000 })
    const hold = await locks.semaphore('pool', 2).acquire()
    await consul.request('DELETE', '/v1/kv/record/pool/.lock')
    await until('the signal of the hold aborts', () => hold.signal.aborted)
    await hold.release()
    await until('nothing is left', async () => (await keysOf(consul, 'record/')).length === 0)
  })

  it('who breaks one permit leaves the others', async () => {
    const consul = await server()
    const url = `${consul.url}/permits?${QUICK}`
    const [a, b] = [await connectTo(url), await connectTo(url)]
    const one = await a.semaphore('pool', 2).acquire({ note: 'one' })
    await using two = await b.semaphore('pool', 2).acquire({ note: 'two' })
    const { holders } = await b.inspect('pool')
    const ref = holders.find(({ note }) => note === 'one')?.ref ?? ''
    expect((await b.evict('pool', { reason: 'a test', ref })).length).toBe(1)
    expect((await b.inspect('pool')).holders.map(({ note }) => note)).toEqual(['two'])
    await expect(one.extend()).rejects.toBeInstanceOf(LockLostError)
    await two.extend()
    await one.release()
  })
})

describe.skipIf(isMissing)(titled('the lock delay', whyMissing), () => {
  it('keeps everybody out for a while after a holder was lost, and only then', async () => {
    const consul = await server()
    const url = `${consul.url}/delay?ttlMinMs=1000&lockDelayMs=3000`
    const [a, b] = [await connectTo(url), await connectTo(url)]
    const given = await a.mutex('it').acquire()
    await given.release()
    const hold = await b.mutex('it').acquire({ waitMs: 0 })
    const [key] = await keysOf(consul, 'delay/')
    const since = performance.now()
    await consul.request('PUT', `/v1/session/destroy/${key?.Session}`)
    expect(await a.mutex('it').tryAcquire()).toBe(null)
    const next = await a.mutex('it').acquire({ waitMs: 60_000 })
    expect(performance.now() - since).toBeGreaterThan(2_900)
    await hold.release()
    await next.release()
    expect(await keysOf(consul, 'delay/')).toEqual([])
  })

  it('does not come after a client that is closed while it holds', async () => {
    const consul = await server()
    const url = `${consul.url}/closed?ttlMinMs=1000&lockDelayMs=60000`
    const locks = await createLocks(await openConsul(url), { ttlMs: 10_000 })
    await locks.mutex('it').acquire()
    await locks.semaphore('pool', 2).acquire()
    await locks.close()
    const other = await connectTo(url)
    await using _next = await other.mutex('it').acquire({ waitMs: 0 })
    expect((await other.inspect('pool')).shape).toBe(null)
  })
})

describe.skipIf(isMissing)(titled('the range of a ttl', whyMissing), () => {
  it('is the one of Consul, and nothing is raised in silence', async () => {
    const consul = await server()
    const locks = await connectTo(consul.url)
    expect(locks.guarantees).toMatchObject({ ttlMinMs: 10_000, ttlMaxMs: 86_400_000 })
    for (const ttlMs of [9_999, 86_400_001]) {
      expect(() => locks.mutex('it', { ttlMs })).toThrow(InvalidInputError)
    }
    expect(await sessionsOf(consul).then((all) => all.filter(({ Name }) => Name === 'holdfast'))).toEqual([])
    await using _hold = await locks.mutex('it', { ttlMs: 10_001 }).acquire()
    const { text } = await consul.request('GET', '/v1/session/list')
    expect(text).toContain('"TTL":"11s"')
    expect(text).toContain('"NodeChecks":[]')
  })

  it('that the servers do not take is refused with what to do', async () => {
    const strict = await startConsul({ sessionTtlMin: '10s' })
    onTestFinished(() => strict.dispose())
    const locks = await connectTo(`${strict.url}?ttlMinMs=1000`, { ttlMs: 2_000 })
    await expect(locks.mutex('it').acquire()).rejects.toThrow(/session_ttl_min/)
  })

  it('can be outgrown by `extend()`, which moves the lock to a session that lasts', async () => {
    const consul = await server()
    const url = `${consul.url}/moved?${QUICK}`
    const [a, b] = [await connectTo(url, { ttlMs: 2_000 }), await connectTo(url)]
    await using hold = await a.mutex('it').acquire({ renew: false })
    await using permit = await a.semaphore('pool', 1).acquire({ renew: false })
    await hold.extend(20_000)
    await permit.extend(20_000)
    await sleep(5_000)
    hold.assertHeld()
    permit.assertHeld()
    expect(await b.mutex('it').tryAcquire()).toBe(null)
    expect(await b.semaphore('pool', 1).tryAcquire()).toBe(null)
    expect((await b.inspect('it')).holders[0]?.fence).toBe(hold.fence)
  })

  it('ends a fixed lease though other locks keep the session', async () => {
    const consul = await server()
    const url = `${consul.url}/fixed?${QUICK}`
    const [a, b] = [await connectTo(url, { ttlMs: 2_000 }), await connectTo(url)]
    await using kept = await a.mutex('kept').acquire()
    const hold = await a.mutex('it').acquire({ renew: false })
    const next = await b.mutex('it').acquire({ waitMs: 60_000 })
    expect(hold.isHeld).toBe(false)
    kept.assertHeld()
    await next.release()
  })
})

describe.skipIf(isMissing)(titled('a request without an answer', whyMissing), () => {
  it('to take a lock takes nothing that stays, though it is carried out late', async () => {
    const consul = await server()
    const proxy = await startProxy(consul.port)
    onTestFinished(() => proxy.dispose())
    const shaky = await connectTo(`consul://127.0.0.1:${proxy.port}/late?${QUICK}`, { requestMs: 500 })
    const other = await connectTo(`${consul.url}/late?${QUICK}`)
    // The session is there, and keeps another lock.
    const kept = await shaky.mutex('kept').acquire()
    const [doubtful] = await keysOf(consul, 'late/kept')
    proxy.dropReplies(true)
    await expect(shaky.mutex('it').acquire({ waitMs: 0 })).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    proxy.dropReplies(false)
    proxy.cut()
    const next = await other.mutex('it').acquire({ waitMs: 60_000 })
    await next.release()
    await kept.release()
    // A session with such a request is over once nothing is in it any more.
    await using _again = await shaky.mutex('again').acquire({ waitMs: 60_000 })
    const [key] = await keysOf(consul, 'late/again')
    expect(key?.Session).not.toBe(doubtful?.Session)
    await until(
      'the session is over',
      async () => !(await sessionsOf(consul)).some(({ ID }) => ID === doubtful?.Session),
    )
  })
})

describe.skipIf(isMissing)(titled('an agent that is started again', whyMissing), () => {
  it('kept every lock, and the holder holds on', async () => {
    const consul = await startConsul()
    onTestFinished(() => consul.dispose())
    const locks = await connectTo(`${consul.url}?${QUICK}`, { ttlMs: 20_000 })
    const hold = await locks.mutex('it').acquire()
    await consul.kill()
    await consul.restart()
    await hold.extend()
    hold.assertHeld()
    const other = await connectTo(`${consul.url}?${QUICK}`)
    expect(await other.mutex('it').tryAcquire()).toBe(null)
    const waiting = other.mutex('it').acquire({ waitMs: 60_000 })
    await sleep(200)
    await hold.release()
    await using next = await waiting
    expect(next.fence > hold.fence).toBe(true)
  })

  it('wakes those who waited before', async () => {
    const consul = await startConsul()
    onTestFinished(() => consul.dispose())
    const url = `${consul.url}?${QUICK}`
    const [a, b] = [await connectTo(url, { ttlMs: 30_000 }), await connectTo(url, { outageMs: 30_000 })]
    const hold = await a.mutex('it').acquire()
    const waiting = b.mutex('it').acquire({ waitMs: 50_000 })
    await sleep(300)
    await consul.kill()
    await sleep(500)
    await consul.restart()
    await hold.release()
    await (await waiting).release()
  })
})
