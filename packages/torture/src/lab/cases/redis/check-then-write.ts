import type { LabCase } from '../../case.js'
import { ours } from '../../recipes/ours.js'
import { CheckThenWrite } from '../../recipes/redis/check-then-write.js'
import { dataUrlOf, GuardedData } from '../../recipes/redis/data.js'

export const checkThenWrite: LabCase = {
  name: 'check-then-write',
  title: 'Is it still mine? Then write',
  family: 'redis',
  stores: ['redis'],
  story:
    'The holder is careful: right before it writes, it asks its clock and the server whether the lock is still its own. ' +
    'Martin Kleppmann told in 2016 why no such check can be late enough: the process can be stopped after it.',
  fault:
    'A checks, all is well, and its process is stopped (SIGSTOP, as by a long garbage collection or a sleeping machine) ' +
    'before the write leaves. B gets the lock, adds to the data and releases. A goes on, and overwrites them with what it had read before.',
  expects: 'lost-update',
  ours:
    '`redis:`, recipe `line`, and `redisGuard` at the data. The check of A passes just the same. But its write carries a ' +
    'fence, the data have seen the higher one of B, and refuse it with `StaleFenceError`.',
  resources: { 'account/data': { kind: 'set' } },
  open: {
    broken: (world) => new CheckThenWrite(world),
    ours: ours({ resource: (world) => new GuardedData(dataUrlOf(world)) }),
  },
  schedule: async (scene) => {
    const [a, b] = await scene.actors('A', 'B')
    await a.acquire()
    await a.arm('between check and write', 'stop')
    const adding = a.add(1)
    await a.reaches('between check and write')
    await b.acquire({ waitMs: 30_000 })
    await b.add(2)
    await b.release()
    await scene.resume(a)
    await adding
    await a.release()
    await b.acquire({ waitMs: 30_000 })
    await b.read()
    await b.release()
  },
}
