import { startRedis } from 'holdfast-servers'
import type { LabCase } from '../../case.js'
import type { LabWorld } from '../../lock.js'
import { ours } from '../../recipes/ours.js'
import { dataUrlOf, GuardedData } from '../../recipes/redis/data.js'
import { Redlock } from '../../recipes/redis/redlock.js'
import type { Scene } from '../../scene.js'
import { FiveMasters } from './five-masters.js'

const groups = new WeakMap<Scene, FiveMasters>()

/** How far the clock is set forward: far beyond the end of the lease. */
const JUMP_MS = 120_000

export const redlockClock: LabCase = {
  name: 'redlock-clock-jump',
  title: 'Redlock with a node whose clock jumps',
  family: 'redis',
  stores: ['redis-masters', 'redis'],
  story:
    'The first of the two objections of Martin Kleppmann to Redlock (2016): every node judges leases by its own wall clock, ' +
    'and a majority of nodes is safe only as long as the clocks of all are. And Redlock has no number that the data ' +
    'could check, since no two nodes count alike.',
  fault:
    'A has the nodes 1, 2 and 3, and cannot reach 4 and 5. The clock of node 3 is set forward, so that it forgets. B cannot ' +
    'reach 1 and 2, and gets 3, 4 and 5. Both hold; B adds to the data, and A overwrites them with what it had read before.',
  expects: 'lost-update',
  ours:
    'Not our `redis+redlock:`, which declares `safety: best-effort` and `fencing: none`, and would fail here just the same. ' +
    'Where two holders would do harm, it says, take a store with fences and check them at the data: here `redis:` with the ' +
    'recipe `line`, on the very node whose clock jumps, and `redisGuard`. B has the higher fence, and A is refused.',
  admits: {
    overlap:
      'The store declares `clock: server-wall` and `safety: single-node`: a clock that is set forward ends leases early. ' +
      'What protects the data is the fence, and the first holder hears of it at its next renewal.',
  },
  resources: { 'account/data': { kind: 'set' } },
  setUp: async (scene) => {
    scene.ttlMs = 20_000
    groups.set(scene, await FiveMasters.start(scene, { clock: true }))
  },
  open: {
    broken: (world) => new Redlock(world),
    ours: ours({ url: nodeThree, resource: (world) => new GuardedData(dataUrlOf(world)) }),
  },
  schedule: async (scene) => {
    const group = groups.get(scene)
    if (group === undefined) throw new Error('The servers have not been started.')
    const dataUrl = scene.own(await startRedis()).url
    const [ofA, ofB] = [await group.ways(), await group.ways()]
    const a = await scene.actor('A', { url: ofA.url, settings: { dataUrl } })
    const b = await scene.actor('B', { url: ofB.url, settings: { dataUrl } })
    group.cutOff('A', ofA, [4, 5])
    await a.acquire({ waitMs: 30_000 })
    await a.arm('between check and write', 'wait')
    const adding = a.add(1)
    await a.reaches('between check and write')
    scene.faultBegins('clock', 'node 3')
    group.node(3).stepClock(JUMP_MS)
    group.cutOff('B', ofB, [1, 2])
    await b.acquire({ waitMs: 30_000 })
    await b.add(2)
    await a.go('between check and write')
    await adding
    await b.read()
    await b.release()
    await a.release()
  },
}

/** The third address of those that Redlock has. */
function nodeThree({ url }: LabWorld): string {
  return `redis://${url.replace('redis+redlock://', '').split(',')[2]}`
}
