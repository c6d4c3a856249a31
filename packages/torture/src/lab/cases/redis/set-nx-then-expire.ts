import type { LabCase } from '../../case.js'
import { ours } from '../../recipes/ours.js'
import { SetNxThenExpire } from '../../recipes/redis/set-nx-then-expire.js'

const WAIT_MS = 4_000

export const setNxThenExpire: LabCase = {
  name: 'setnx-then-expire',
  title: 'SETNX, and EXPIRE in the next command',
  family: 'redis',
  stores: ['redis'],
  story:
    'The oldest lock on Redis: `SETNX` takes the key, `EXPIRE` gives it an end of life. It stands in answers and blog ' +
    'posts from before Redis 2.6.12, which brought `SET name value NX PX ttl`, and is still written today.',
  fault:
    'The process is killed between the two commands. The key has no end of life, so nobody ever gets the lock again.',
  expects: 'stuck-waiter',
  ours:
    '`redis:`, recipe `line`. The place in the line and its lease are written by one script, so there is no moment at ' +
    'which the one is there without the other. The process is killed at the first moment at which it holds the lock.',
  promises: { servedWithinMicros: 3_000_000 },
  open: { broken: (world) => new SetNxThenExpire(world), ours: ours() },
  schedule: async (scene) => {
    const [a, b] = await scene.actors('A', 'B')
    // Whichever point comes first: ours has none between two commands, because there is only one.
    await a.arm('between SETNX and EXPIRE', 'kill')
    await a.arm('right after acquiring', 'kill')
    await scene.dies(a.acquire())
    await scene.died(a)
    await b.acquire({ waitMs: WAIT_MS })
    await b.release()
  },
}
