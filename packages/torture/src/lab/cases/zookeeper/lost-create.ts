import type { LabCase } from '../../case.js'
import { ours } from '../../recipes/ours.js'
import { CreatedAgain } from '../../recipes/zookeeper/created-again.js'
import { sessionsIn } from './server-side.js'

const SESSION_MS = 12_000
const SERVED_MS = 6_000

export const zookeeperLostCreate: LabCase = {
  name: 'zookeeper-lost-create',
  title: 'A create without an answer is made again',
  family: 'zookeeper',
  stores: ['zookeeper'],
  story:
    'The connection breaks after the node was made and before its name came back. The client goes on with the same session ' +
    'and makes a node once more. The number in the name is given by the server, so nothing tells that the first one is its ' +
    'own too (ZOOKEEPER-1262).',
  fault:
    'The answer to the create of A is thrown away and the connection is cut. A connects again, makes a second node, and ' +
    'waits for the first one, which is its own and lives as long as its session does. Nobody gets the lock for as long as A lives.',
  expects: 'stuck-waiter',
  ours:
    '`zookeeper:`, recipe `sequential`. The name of the node has the number of the claim in it. After the connection is ' +
    'back it is looked for, and found.',
  promises: { servedWithinMicros: SERVED_MS * 1_000 },
  setUp: async () => {},
  open: { broken: (world) => CreatedAgain.open(world), ours: ours({ query: `sessionMs=${SESSION_MS}` }) },
  schedule: async (scene) => {
    const server = await scene.start('zookeeper')
    scene.ttlMs = (SESSION_MS * 2) / 3
    const relay = await scene.relay(server.port)
    const settings = { sessionMs: SESSION_MS }
    const [a, b] = [await scene.actor('A', { relay, settings }), await scene.actor('B', { settings })]
    // The folder of the lock is there from now on, so that the node is the first thing that is asked for.
    await b.acquire()
    await b.release()
    scene.faultBegins('drop-replies', 'A')
    relay.dropReplies(true)
    const waiting = a.acquire({ waitMs: SERVED_MS * 1.5 })
    await scene.until(async () => (await sessionsIn(server, scene.lockName)).length > 0)
    relay.cut()
    relay.dropReplies(false)
    scene.faultEnds('drop-replies', 'A')
    await waiting
    await a.release()
  },
}
