import type { LabCase } from '../../case.js'
import { ours } from '../../recipes/ours.js'
import { OneNode } from '../../recipes/zookeeper/one-node.js'
import { counted } from './server-side.js'

const WAITERS = 20
const SESSION_MS = 30_000

export const zookeeperHerd: LabCase = {
  name: 'zookeeper-herd',
  title: 'Everybody watches the one node of the lock',
  family: 'zookeeper',
  stores: ['zookeeper'],
  story:
    'The first lock that people write on ZooKeeper: whoever makes the ephemeral node has the lock, and whoever finds it ' +
    'there watches it and tries again when it goes. It is safe. The documentation of ZooKeeper warns of it all the same.',
  fault:
    `${WAITERS} callers wait, and the lock is handed on until all have had it. The server counts the watches that each ` +
    'release sets off: all who still wait are woken, to see one of them win.',
  expects: 'herd',
  ours:
    '`zookeeper:`, recipe `sequential`. Each claim is a node with a number, and whoever waits watches the one just before ' +
    'its own, so a release wakes one.',
  setUp: async () => {},
  open: { broken: (world) => OneNode.open(world), ours: ours({ query: `sessionMs=${SESSION_MS}` }) },
  schedule: async (scene) => {
    const server = await scene.start('zookeeper')
    scene.ttlMs = 15_000
    const settings = { sessionMs: SESSION_MS }
    const holder = await scene.actor('A', { settings })
    const waiters = await scene.crowd('W', WAITERS, { settings })
    await holder.acquire()
    const others = await counted(server, 'watch_count')
    const turns = new Map(waiters.map((waiter) => [waiter, waiter.acquire({ waitMs: 100_000 })] as const))
    let current = holder
    let woken = 0
    while (turns.size > 0) {
      const everybodyWatches = others + turns.size
      await scene.until(async () => (await counted(server, 'watch_count')) >= everybodyWatches)
      const before = await counted(server, 'sum_node_deleted_watch_count')
      await current.release()
      current = await Promise.race([...turns].map(([waiter, turn]) => turn.then(() => waiter)))
      woken += (await counted(server, 'sum_node_deleted_watch_count')) - before
      turns.delete(current)
    }
    await current.release()
    scene.count('releases with somebody waiting', WAITERS)
    scene.count('watches set off', woken)
  },
  judge: (_history, facts) => {
    const [releases, woken] = [facts.get('releases with somebody waiting'), facts.get('watches set off')]
    // A schedule that counted nothing must not pass for one that found nothing.
    if (releases !== undefined && woken !== undefined && woken > 0 && woken <= releases) return []
    return [
      {
        kind: 'herd',
        resource: 'account',
        at: 0,
        message: `${releases} releases woke ${woken} who waited, where one each is enough.`,
      },
    ]
  },
}
