import type { Actor } from '../../actor-process.js'
import type { Play } from '../play.js'
import type { Trial } from '../trial.js'

/** Long, so that the parts of it that count are far more than this machine is ever late by. */
const SLOW_TTL_MS = 5_000
const RENEWED_TTL_MS = 6_000
const WAIT_MS = 20_000

/** A short lease that nobody renews is made long. From then on nobody else gets the lock, after its first end either. */
export const extendedLease: Trial = {
  name: 'lease extended',
  run: async (play) => {
    await play.operator()
    const a = await play.actor('A', { renew: false, extendMs: 30_000 })
    const b = await play.actor('B')
    await a.acquire({ ttlMs: 2_000 })
    await a.extend()
    await b.acquire({ ttlMs: 30_000, waitMs: 5_000 })
    await a.assert()
    await b.release()
    await a.release()
  },
}

/** The answer to an acquire takes half of the lease. The lease has begun all the same. */
export const slowAnswer: Trial = {
  name: 'slow answer',
  run: async (play) => {
    const { scene } = play
    const operator = await play.operator()
    const relay = await play.relay()
    const [a, b] = [await play.actor('A', { relay, renew: false }), await play.actor('B')]
    scene.faultBegins('delay', 'A')
    relay.holdReplies(true)
    const acquiring = a.acquire({ ttlMs: SLOW_TTL_MS })
    await isHeld(play, operator)
    await scene.sleep(SLOW_TTL_MS / 2)
    relay.holdReplies(false)
    scene.faultEnds('delay', 'A')
    await acquiring
    await b.acquire({ ttlMs: 30_000, waitMs: WAIT_MS })
    await b.release()
    await a.release()
  },
}

/** The answer to the first renewal is late, and no other renewal gets through. What was renewed has begun all the same. */
export const slowRenewal: Trial = {
  name: 'slow renewal',
  run: async (play) => {
    const { scene } = play
    await play.operator()
    const relay = await play.relay()
    const [a, b] = [await play.actor('A', { relay }), await play.actor('B')]
    await a.acquire({ ttlMs: RENEWED_TTL_MS })
    scene.faultBegins('delay', 'A')
    relay.holdReplies(true)
    await relay.waitForBytes('request')
    relay.hold(true)
    await scene.sleep(RENEWED_TTL_MS * 0.4)
    relay.holdReplies(false)
    await b.acquire({ ttlMs: 30_000, waitMs: WAIT_MS })
    relay.hold(false)
    scene.faultEnds('delay', 'A')
    await b.release()
    await a.release()
  },
}

/** The store cannot be reached, and a lease runs out. Its holder is told by the clock, without having asked. */
export const endOfLease: Trial = {
  name: 'end of a lease',
  promises: { abortWithinMicros: 2_000_000 },
  run: async (play) => {
    const { scene } = play
    await play.operator()
    const relay = await play.relay()
    const a = await play.actor('A', { relay, renew: false })
    await a.acquire({ ttlMs: 1_000 })
    scene.faultBegins('partition', 'A')
    relay.hold(true)
    await scene.sleep(5_000)
    await a.assert()
  },
}

/** A holder is killed. Its lease ends, and whoever waits is served. */
export const deadHolder: Trial = {
  name: 'holder killed',
  promises: { servedWithinMicros: 3_000_000 },
  run: async (play) => {
    const { scene } = play
    await play.operator()
    const [a, b] = [await play.actor('A', { ownProcess: true }), await play.actor('B')]
    await a.acquire({ ttlMs: 800 })
    await scene.kill(a)
    await b.acquire({ waitMs: 6_000 })
    await b.release()
  },
}

/** The clock of the second one is a minute ahead. The lease of the first one is not over for that. */
export const skewedClock: Trial = {
  name: 'clock ahead',
  run: async (play) => {
    const a = await play.actor('A', { renew: false, ownProcess: true })
    const b = await play.actor('B', { wallAheadMs: 60_000, ownProcess: true })
    await a.acquire({ ttlMs: 30_000 })
    await b.acquire({ ttlMs: 30_000 })
    await a.assert()
    await b.release()
    await a.release()
  },
}

async function isHeld({ scene }: Play, operator: Actor): Promise<void> {
  await scene.until(async () => {
    const { holders } = (await operator.act('count', scene.lockName)) as { holders: number }
    return holders > 0
  })
}
