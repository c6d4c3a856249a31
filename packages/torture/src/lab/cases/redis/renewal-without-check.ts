import type { LabCase } from '../../case.js'
import { ours } from '../../recipes/ours.js'
import { RenewalWithoutCheck } from '../../recipes/redis/renewal-without-check.js'

export const renewalWithoutCheck: LabCase = {
  name: 'renewal-without-owner-check',
  title: 'PEXPIRE as a renewal',
  family: 'redis',
  stores: ['redis'],
  story:
    'A timer sends `PEXPIRE name ttl` for as long as the work goes on. `PEXPIRE` answers 1 if there is a key, whoever it ' +
    'belongs to. Taking and giving back are as they should be.',
  fault:
    'A is stopped for longer than its lease, and B gets the lock. A goes on, its timer fires, and the renewal succeeds: on ' +
    'the key of B. Both believe that they hold the lock, and A keeps that of B alive.',
  expects: 'overlap',
  ours:
    '`redis:`, recipe `line`. A renewal names the claim and its fence, and is refused if another one is there. Besides, the ' +
    'clock of A tells it that its lease was over before the renewal was sent, and a lost hold never comes back.',
  open: { broken: (world) => new RenewalWithoutCheck(world), ours: ours() },
  schedule: async (scene) => {
    const [a, b] = await scene.actors('A', 'B')
    await a.acquire()
    scene.pause(a)
    await b.acquire({ waitMs: 30_000 })
    await scene.resume(a)
    // Long enough for the timer of A, and shorter than the lease of B without its own renewals.
    await scene.sleep(2 * scene.ttlMs)
    await a.assert()
    await b.assert()
    await a.release()
    await b.release()
  },
}
