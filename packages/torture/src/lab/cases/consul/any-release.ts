import type { LabCase } from '../../case.js'
import { AnyRelease } from '../../recipes/consul/any-release.js'
import { ours } from '../../recipes/ours.js'

export const consulAnyRelease: LabCase = {
  name: 'consul-any-release',
  title: 'The key is deleted, whoever has locked it',
  family: 'consul',
  stores: ['consul'],
  story:
    'A release by `?release=<session>` leaves the key behind, so people delete it to tidy up. Consul lets everybody delete a ' +
    'key who may write it, locked or not: its locks are advice.',
  fault:
    'A is stopped for longer than its session, and B gets the lock, as it should. A goes on and releases: it deletes the key ' +
    'that B has locked. C gets the lock beside B.',
  expects: 'overlap',
  ours:
    '`consul:`. A release deletes the key only if it is still the one that this claim has taken (`cas` with its index), so that ' +
    'of A changes nothing.',
  open: {
    broken: (world) => new AnyRelease(world),
    ours: ours({ query: 'lockDelayMs=0&ttlMinMs=1000' }),
  },
  schedule: async (scene) => {
    scene.ttlMs = 3_000
    const [a, b, c] = [await scene.actor('A'), await scene.actor('B'), await scene.actor('C')]
    await a.acquire()
    scene.pause(a)
    await b.acquire({ waitMs: 60_000, ttlMs: 20_000 })
    await scene.resume(a)
    await a.release()
    await c.acquire({ waitMs: 2_000 })
    await b.assert()
    await b.release()
    await c.release()
  },
}
