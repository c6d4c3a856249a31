import type { LabCase } from '../../case.js'
import { ours } from '../../recipes/ours.js'
import { Redlock } from '../../recipes/redis/redlock.js'
import type { Scene } from '../../scene.js'
import { FiveMasters } from './five-masters.js'

const TTL_MS = 5_000

const groups = new WeakMap<Scene, FiveMasters>()

export const redlockRestart: LabCase = {
  name: 'redlock-empty-restart',
  title: 'Redlock with a node that comes back empty',
  family: 'redis',
  stores: ['redis-masters'],
  story:
    'A lock is what a majority of five masters have. The description says that a node which restarts must stay away for as ' +
    'long as the longest lease lasts, and hardly any program does that: the servers are restarted by whoever looks after ' +
    'them, and come back at once.',
  fault:
    'A has the nodes 1, 2 and 3, and cannot reach 4 and 5. Node 3 is killed and comes back without its data. It votes ' +
    'for B, and so do 4 and 5.',
  expects: 'overlap',
  ours:
    '`redis+redlock:`. A node that says in `INFO` that it was started less than `restartDelayMs` ago has no say, so ' +
    'B does not get a majority before the lease of A is over.',
  setUp: async (scene) => {
    scene.ttlMs = TTL_MS
    groups.set(scene, await FiveMasters.start(scene))
  },
  open: {
    broken: (world) => new Redlock(world),
    ours: ours({ query: `maxTtlMs=${TTL_MS}`, client: { ttlMs: TTL_MS } }),
  },
  schedule: async (scene) => {
    const group = groups.get(scene)
    if (group === undefined) throw new Error('The servers have not been started.')
    await group.upFor(TTL_MS / 1_000 + 1)
    const [ofA, ofB] = [await group.ways(), await group.ways()]
    const [a, b] = [await scene.actor('A', { url: ofA.url }), await scene.actor('B', { url: ofB.url })]
    group.cutOff('A', ofA, [4, 5])
    await a.acquire({ waitMs: 30_000 })
    scene.faultBegins('server-kill', 'node 3')
    await group.node(3).kill()
    await group.node(3).restart()
    scene.faultEnds('server-kill', 'node 3')
    await b.acquire({ waitMs: TTL_MS / 2 })
    await a.assert()
    await b.release()
    await a.release()
  },
}
