import type { Trial } from '../trial.js'

const TTL_MS = 30_000

/**
 * A holder is evicted, and hears of it by its next renewal, which is asked for here. Whoever comes after that is alone.
 * That it believes in its lock until then is no fault.
 */
export const evictedHolder: Trial = {
  name: 'holder evicted',
  run: async (play) => {
    const { scene } = play
    const operator = await play.operator()
    const [a, b] = [await play.actor('A'), await play.actor('B')]
    await a.acquire({ ttlMs: TTL_MS })
    scene.faultBegins('eviction', 'A')
    await operator.act('evict', scene.lockName)
    scene.faultEnds('eviction', 'A')
    await a.extend()
    await b.acquire({ ttlMs: TTL_MS, waitMs: 20_000 })
    await a.assert()
    await b.release()
    await a.release()
  },
}

/** The connection that keeps a lock is ended, long before anything has to be renewed. The holder hears of it all the same. */
export const endedConnection: Trial = {
  name: 'connection ended',
  run: async (play) => {
    const { scene } = play
    const operator = await play.operator()
    const [a, b] = [await play.actor('A'), await play.actor('B')]
    await a.acquire({ ttlMs: TTL_MS })
    scene.faultBegins('cut', 'A')
    await operator.act('evict', scene.lockName)
    scene.faultEnds('cut', 'A')
    await play.within(4_000, async () => !(await a.assert()))
    await b.acquire({ ttlMs: TTL_MS, waitMs: 20_000 })
    await a.assert()
    await b.release()
    await a.release()
  },
}
