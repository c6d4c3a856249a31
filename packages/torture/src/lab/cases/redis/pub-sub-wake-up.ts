import type { RedisServer } from 'holdfast-servers'
import type { LabCase } from '../../case.js'
import { ours } from '../../recipes/ours.js'
import { PubSubWakeUp } from '../../recipes/redis/pub-sub-wake-up.js'
import type { Scene } from '../../scene.js'

const servers = new WeakMap<Scene, RedisServer>()

export const pubSubWakeUp: LabCase = {
  name: 'pubsub-without-recheck',
  title: 'Waiting for a message, and for nothing else',
  family: 'redis',
  stores: ['redis'],
  story:
    'Polling is a waste, so whoever releases publishes a message, and whoever waits tries again when it comes. Redis ' +
    'delivers a message to those who are connected at that moment, and keeps none.',
  fault:
    'The connection that B listens on breaks for a moment, in which A releases. The driver connects and subscribes again by ' +
    'itself, so nothing looks wrong. The lock is free, and B waits for a message that has been.',
  expects: 'stuck-waiter',
  ours:
    '`redis:`, recipe `line`. The message is a hint and never a proof: whoever waits asks again about once a second, and ' +
    'when its connection has come back.',
  promises: { servedWithinMicros: 5_000_000 },
  setUp: async (scene) => {
    servers.set(scene, await scene.start('redis'))
  },
  open: { broken: (world) => new PubSubWakeUp(world), ours: ours() },
  schedule: async (scene) => {
    scene.ttlMs = 20_000
    const relay = await scene.relay(servers.get(scene)?.port ?? 0)
    const [a, b] = [await scene.actor('A'), await scene.actor('B', { relay })]
    await a.acquire()
    const waiting = b.acquire({ waitMs: 8_000 })
    // So that B has tried, and knows that it has to wait.
    await scene.sleep(500)
    const listening = await subscribers(scene)
    relay.refuse(true)
    scene.faultBegins('cut', 'B')
    await scene.until(() => relay.cut(({ sawSubscribe }) => sawSubscribe) > 0)
    await scene.until(async () => (await subscribers(scene)) < listening)
    await a.release()
    relay.refuse(false)
    scene.faultEnds('cut', 'B')
    await waiting
    await b.release()
  },
}

/** How many connections listen, those of A among them. */
async function subscribers(scene: Scene): Promise<number> {
  const list = String((await servers.get(scene)?.command('CLIENT', 'LIST')) ?? '')
  return list.split('\n').filter((line) => /\bsub=[1-9]/.test(line)).length
}
