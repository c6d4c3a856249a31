import type { LabCase } from '../../case.js'
import { ours } from '../../recipes/ours.js'
import { DelWithoutCheck } from '../../recipes/redis/del-without-check.js'

export const delWithoutCheck: LabCase = {
  name: 'del-without-owner-check',
  title: 'DEL without a look at whose lock it is',
  family: 'redis',
  stores: ['redis'],
  story:
    '`SET name 1 NX PX ttl` takes the lock and `DEL name` gives it back. The value says nothing about who holds it, so ' +
    'the deletion takes away whatever is there.',
  fault:
    'A is stopped for longer than its lease, and B gets the lock, as it should. A goes on and releases: it deletes the ' +
    'lock of B. C gets it beside B.',
  expects: 'overlap',
  ours:
    '`redis:`, recipe `line`. Every claim has an id, and a release names the one that it means, so the release of A ' +
    'finds nothing of its own and changes nothing.',
  open: { broken: (world) => new DelWithoutCheck(world), ours: ours() },
  schedule: async (scene) => {
    const [a, b, c] = await scene.actors('A', 'B', 'C')
    await a.acquire()
    scene.pause(a)
    await b.acquire({ waitMs: 20_000, ttlMs: 10_000 })
    await scene.resume(a)
    await a.release()
    await c.acquire({ waitMs: 500 })
    await b.assert()
    await b.release()
    await c.release()
  },
}
