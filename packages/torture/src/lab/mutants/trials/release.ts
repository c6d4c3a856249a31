import type { Trial } from '../trial.js'

const TTL_MS = 30_000

/**
 * A release comes late: its claim is gone by then, and somebody else has the lock. It must not take that away. The claim
 * is removed by an operator, because nobody needs to wait for that.
 */
export const lateRelease: Trial = {
  name: 'late release',
  run: async (play) => {
    const { scene } = play
    const operator = await play.operator()
    const relay = await play.relay()
    const [a, b, c] = [await play.actor('A', { relay }), await play.actor('B'), await play.actor('C')]
    await a.acquire({ ttlMs: TTL_MS })
    scene.faultBegins('delay', 'A')
    relay.hold(true)
    // All are in one process, which does what it is told in order: from here on, the release is on its way.
    const releasing = a.release()
    await operator.act('evict', scene.lockName)
    await b.acquire({ ttlMs: TTL_MS, waitMs: 20_000 })
    relay.hold(false)
    scene.faultEnds('delay', 'A')
    await releasing
    await c.acquire({ ttlMs: TTL_MS })
    await b.assert()
    await b.release()
    await c.release()
  },
}
