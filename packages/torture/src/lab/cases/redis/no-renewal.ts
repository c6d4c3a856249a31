import type { LabCase } from '../../case.js'
import { ours } from '../../recipes/ours.js'
import { NoRenewal } from '../../recipes/redis/owned-key.js'

export const noRenewal: LabCase = {
  name: 'no-renewal',
  title: 'Work that outlives the lease',
  family: 'redis',
  stores: ['redis'],
  story:
    '`SET name token NX PX ttl`, and a deletion by whoever has the token: as the documentation of Redis has it. The ttl ' +
    'is a guess of how long the work takes, made once, and nobody looks at it again.',
  fault:
    'The work takes four times as long as the guess: a slow database, a long garbage collection, more rows than usual. ' +
    'Nothing tells A that its lease is over, and B works beside it.',
  expects: 'overlap',
  ours:
    '`redis:`, recipe `line`. The keeper renews the lease for as long as the process lives, and tells the holder by its ' +
    'signal before the lock can be somebody else’s. B waits until A is done.',
  open: { broken: (world) => new NoRenewal(world), ours: ours() },
  schedule: async (scene) => {
    const [a, b] = await scene.actors('A', 'B')
    await a.acquire()
    const waiting = b.acquire({ waitMs: 30_000 })
    scene.say('A works for four times the length of its lease.')
    await scene.sleep(4 * scene.ttlMs)
    await a.assert()
    await a.release()
    await waiting
    await b.release()
  },
}
