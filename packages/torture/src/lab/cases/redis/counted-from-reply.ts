import type { RedisServer } from 'holdfast-servers'
import type { LabCase } from '../../case.js'
import { ours } from '../../recipes/ours.js'
import { CountedFromReply } from '../../recipes/redis/owned-key.js'
import type { Scene } from '../../scene.js'

const servers = new WeakMap<Scene, RedisServer>()

export const countedFromReply: LabCase = {
  name: 'validity-from-reply',
  title: 'A lease counted from when the answer came',
  family: 'redis',
  stores: ['redis'],
  story:
    'The client sends `SET name token NX PX ttl`, waits for the answer, and counts its lease from there: `Date.now() + ttl`. ' +
    'It looks careful, since it does look at the clock before it writes. But the server counts from when it set the key.',
  fault:
    'The answer takes nine tenths of the lease to come back. A believes that it has all of the lease before it, while the ' +
    'server has a tenth of it left, and then gives the lock to B.',
  expects: 'overlap',
  ours:
    '`redis:`, recipe `line`. A lease is credited from before the request left, less a margin. An answer that leaves too ' +
    'little of it is no grant: it is given back, and asked for again.',
  setUp: async (scene) => {
    servers.set(scene, await scene.start('redis'))
  },
  open: { broken: (world) => new CountedFromReply(world), ours: ours() },
  schedule: async (scene) => {
    scene.ttlMs = 2_000
    const relay = await scene.relay(servers.get(scene)?.port ?? 0)
    const [a, b] = [await scene.actor('A', { relay }), await scene.actor('B')]
    // A first round, so that what is held back below is the answer to the one request and not a part of the set-up.
    await a.acquire()
    await a.release()
    relay.holdReplies(true)
    scene.faultBegins('delay', 'A')
    const answered = relay.waitForBytes('reply')
    const asking = a.acquire({ waitMs: 10_000 })
    await answered
    scene.say('The server has answered A, and the answer is on its way.')
    await scene.sleep(0.9 * scene.ttlMs)
    const waiting = b.acquire({ waitMs: 30_000, ttlMs: 10_000 })
    relay.holdReplies(false)
    scene.faultEnds('delay', 'A')
    // With ours A may have given back what came too late, and then the two may come in either order; the first one is
    // not to be kept from the second for ever.
    const first = await Promise.race([asking.then(() => a), waiting.then(() => b)])
    await scene.sleep(scene.ttlMs / 2)
    await a.assert()
    await first.release()
    await Promise.all([asking, waiting])
    await Promise.all([a.release(), b.release()])
  },
}
