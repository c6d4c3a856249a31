import type { Actor } from '../../actor-process.js'
import type { Scene } from '../../scene.js'
import type { Trial } from '../trial.js'

const TTL_MS = 30_000

/** One holds it, and another asks once. */
export const secondAsks: Trial = {
  name: 'second asks',
  run: async (play) => {
    await play.operator()
    const [a, b] = [await play.actor('A'), await play.actor('B')]
    await a.acquire({ ttlMs: TTL_MS })
    await b.acquire({ ttlMs: TTL_MS })
    await a.assert()
    await b.release()
    await a.release()
  },
}

/** One holds it and two wait. The first of those who wait gives up, which is no reason to let in the second. */
export const middleLeaves: Trial = {
  name: 'waiter in the middle leaves',
  run: async (play) => {
    const { scene } = play
    const operator = await play.operator()
    const [a, b, c] = [await play.actor('A'), await play.actor('B'), await play.actor('C')]
    await a.acquire({ ttlMs: TTL_MS })
    const second = b.acquire({ ttlMs: TTL_MS, waitMs: 30_000 })
    await waiting(scene, operator, 1)
    let isServed = false
    const third = c.acquire({ ttlMs: TTL_MS, waitMs: 30_000 }).then(() => {
      isServed = true
    })
    await waiting(scene, operator, 2)
    await b.act('give up')
    await second
    await play.within(1_500, () => isServed)
    await a.release()
    await third
    await c.release()
  },
}

/** Three turns, one after the other. Each has a higher fence than the one before. */
export const turns: Trial = {
  name: 'turns',
  promises: { fences: true },
  run: async (play) => {
    await play.operator()
    const [a, b] = [await play.actor('A'), await play.actor('B')]
    for (const each of [a, b, a]) {
      await each.acquire({ ttlMs: TTL_MS, waitMs: 20_000 })
      await each.release()
    }
  },
}

/** A holder lets its lease run out, and the next one takes over. Its fence is higher. */
export const takeover: Trial = {
  name: 'takeover',
  promises: { fences: true },
  run: async (play) => {
    await play.operator()
    const [a, b] = [await play.actor('A', { renew: false }), await play.actor('B')]
    await a.acquire({ ttlMs: 800 })
    await b.acquire({ ttlMs: TTL_MS, waitMs: 20_000 })
    await b.release()
    await a.release()
  },
}

/** There are five permits. One takes three, and another asks for three. */
export const tooManyPermits: Trial = {
  name: 'permits',
  resources: { account: { kind: 'semaphore', limit: 5 } },
  run: async (play) => {
    const { lockName: name } = play.scene
    await play.operator()
    const [a, b] = [await play.actor('A'), await play.actor('B')]
    await a.act('share', { kind: 'permits', name, limit: 5, weight: 3 })
    await b.act('share', { kind: 'permits', name, limit: 5, weight: 3 })
  },
}

/** One writes, and another asks to read. */
export const readerAsks: Trial = {
  name: 'reader asks',
  resources: { account: { kind: 'read-write' } },
  run: async (play) => {
    const { lockName: name } = play.scene
    await play.operator()
    const [a, b] = [await play.actor('A'), await play.actor('B')]
    await a.act('share', { kind: 'write', name })
    await b.act('share', { kind: 'read', name })
  },
}

async function waiting(scene: Scene, operator: Actor, count: number): Promise<void> {
  await scene.until(async () => {
    const { waiters } = (await operator.act('count', scene.lockName)) as { waiters: number }
    return waiters >= count
  })
}
