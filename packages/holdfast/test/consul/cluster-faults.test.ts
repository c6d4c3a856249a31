// @module-tag exclusion
import { setTimeout as sleep } from 'node:timers/promises'
import { type ConsulCluster, startConsulCluster } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until, within } from '../../../../test/support/wait.js'
import type { Locks } from '../../src/client/client.js'
import type { Hold } from '../../src/core/hold.js'
import { abortOf } from '../support/aborts.js'
import { connectTo, isMissing, QUICK, whyMissing } from './support.js'

let cluster: ConsulCluster
beforeAll(async () => {
  if (!isMissing) cluster = await startConsulCluster()
})
afterAll(() => cluster?.dispose())

/** Counts those who believe that they hold. Two at once are one too many. */
class Inside {
  readonly #holds = new Set<Hold>()
  most = 0
  entered = 0
  readonly fences: bigint[] = []

  enter(hold: Hold): void {
    this.#holds.add(hold)
    this.entered += 1
    this.fences.push(hold.fence)
    this.look()
  }

  leave(hold: Hold): void {
    this.look()
    this.#holds.delete(hold)
  }

  look(): void {
    const believing = [...this.#holds].filter(({ isHeld }) => isHeld).length
    this.most = Math.max(this.most, believing)
  }
}

/** Takes one lock again and again, whatever happens to the servers, until told to stop. */
async function work(locks: Locks, name: string, inside: Inside, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    try {
      const hold = await locks.mutex(name).acquire({ waitMs: 2_000 })
      inside.enter(hold)
      await sleep(5)
      inside.leave(hold)
      await hold.release()
    } catch (error) {
      const code: unknown = Reflect.get(error as object, 'code')
      const isOutage = ['ACQUIRE_TIMEOUT', 'BACKEND_UNAVAILABLE', 'OUTCOME_UNKNOWN', 'LOCK_LOST'].includes(
        String(code),
      )
      if (!isOutage) throw error
      await sleep(20)
    }
  }
}

/** Has three clients contend while something is done to the servers, and gives what was seen. */
async function underFault(name: string, fault: () => Promise<void>): Promise<Inside> {
  const inside = new Inside()
  const stop = new AbortController()
  const clients = await Promise.all(
    [0, 1, 2].map((first) => {
      const { servers } = cluster
      const hosts = servers.map((_, at) => servers[(at + first) % servers.length])
      const url = `consul://${hosts.map((each) => `127.0.0.1:${each?.port}`).join(',')}/${name}?${QUICK}`
      return connectTo(url, { ttlMs: 5_000, requestMs: 1_500 })
    }),
  )
  const working = clients.map((locks) => work(locks, 'it', inside, stop.signal))
  await until('all work', () => inside.entered > 20)
  await fault()
  await cluster.settled()
  const before = inside.entered
  await until('they work again', () => inside.entered > before + 20)
  stop.abort()
  await Promise.all(working)
  return inside
}

function isSound({ most, fences }: Inside): void {
  expect(most).toBe(1)
  for (const [at, fence] of fences.entries()) expect(at === 0 || fence > (fences[at - 1] ?? 0n)).toBe(true)
}

describe.skipIf(isMissing)(titled('three servers', whyMissing), () => {
  it('lose their leader by kill -9, and no two hold', async () => {
    const inside = await underFault('killed', async () => {
      const leader = await cluster.leader()
      await leader.kill()
      await cluster.failedOver(leader)
      await leader.restart()
    })
    isSound(inside)
  })

  it('have a leader that stands still, and no two hold', async () => {
    const inside = await underFault('paused', async () => {
      const leader = await cluster.leader()
      await leader.pause()
      await cluster.failedOver(leader)
      await sleep(3_000)
      await leader.resume()
    })
    isSound(inside)
  })

  it('keep a lock over the loss of their leader', async () => {
    const locks = await connectTo(`${cluster.url}/kept?${QUICK}`, { ttlMs: 20_000 })
    const hold = await locks.mutex('it').acquire()
    const leader = await cluster.leader()
    await leader.kill()
    await cluster.failedOver(leader)
    await until('the lock is confirmed', async () => {
      return await hold.extend().then(
        () => true,
        () => false,
      )
    })
    hold.assertHeld()
    const other = await connectTo(`${cluster.url}/kept?${QUICK}`)
    expect(await other.mutex('it').tryAcquire()).toBe(null)
    await hold.release()
    await using next = await other.mutex('it').acquire({ waitMs: 60_000 })
    expect(next.fence > hold.fence).toBe(true)
    await leader.restart()
    await cluster.settled()
  })

  it('that cannot agree give nothing, and the holder stops in time', async () => {
    const ttlMs = 4_000
    const [mine, ...others] = cluster.servers
    if (mine === undefined) throw new Error('There is no server.')
    const locks = await connectTo(`${mine.url}/quorum?${QUICK}`, { ttlMs, requestMs: 1_000 })
    const hold = await locks.mutex('it').acquire()
    const aborted = abortOf(hold)
    for (const each of others) await each.pause()
    const pausedAt = performance.now()
    try {
      // No renewal was sent later that could have been answered, so the lease ends within its length from here.
      expect((await within('the signal of the hold aborts', aborted)) - pausedAt).toBeLessThan(ttlMs)
      expect(hold.isHeld).toBe(false)
      const error: unknown = await locks
        .mutex('other')
        .tryAcquire()
        .catch((reason: unknown) => reason)
      expect(['OUTCOME_UNKNOWN', 'BACKEND_UNAVAILABLE']).toContain(Reflect.get(error as object, 'code'))
    } finally {
      for (const each of others) await each.resume()
    }
    await cluster.settled()
    await hold.release()
    await using again = await locks.mutex('it').acquire({ waitMs: 60_000 })
    expect(again.fence > hold.fence).toBe(true)
  })

  it('leave nothing behind', async () => {
    const [first] = cluster.servers
    await until('no key is left', async () => {
      const { status } = (await first?.request('GET', '/v1/kv/?recurse=true&consistent')) ?? { status: 0 }
      return status === 404
    })
    await until('no session is left', async () => {
      const { text } = (await first?.request('GET', '/v1/session/list?consistent')) ?? { text: '' }
      return text.trim() === '[]'
    })
  })
})
