import type { LabCase } from '../../case.js'
import { ours } from '../../recipes/ours.js'
import { GetSetClocks } from '../../recipes/redis/get-set-clocks.js'

export const getSetClocks: LabCase = {
  name: 'getset-client-clocks',
  title: 'SETNX, GET and GETSET with the clocks of the clients',
  family: 'redis',
  stores: ['redis'],
  story:
    'The documentation of `SETNX` once told it: the value of the key is the time at which the lock ends, and whoever finds ' +
    'that this is past takes it over with `GETSET`. It needs no `EXPIRE`, so a crash leaves nothing behind.',
  fault:
    'The time is that of the client that took the lock, and is compared with the clock of the one that asks. The clock of B ' +
    'is a minute fast. It finds the lock of A to be over and takes it, while A works.',
  expects: 'overlap',
  ours:
    '`redis:`, recipe `line`. Only the clock of the server judges leases, and a client counts its own lease on its ' +
    'monotonic clock. The wall clock of B is just as wrong with it.',
  open: { broken: (world) => new GetSetClocks(world), ours: ours() },
  schedule: async (scene) => {
    scene.ttlMs = 5_000
    const [a, b] = await scene.actors('A', 'B')
    scene.faultBegins('clock', 'B')
    await b.setClock(60_000)
    await a.acquire()
    await b.acquire({ waitMs: 300 })
    await a.assert()
    await b.release()
    await a.release()
    scene.faultEnds('clock', 'B')
  },
}
