import type { LabCase } from '../../case.js'
import { GoMutex } from '../../recipes/etcd/go-mutex.js'
import { ours } from '../../recipes/ours.js'

const SERVED_MS = 4_000

export const etcdNestedNames: LabCase = {
  name: 'etcd-nested-names',
  title: 'A name that is part of another name',
  family: 'etcd',
  stores: ['etcd'],
  story:
    'The keys of a lock are those that begin with its name and a slash. Whoever locks `orders/7` has a key `orders/7/…`, which ' +
    'begins with `orders/` as well. So etcdctl and the Go package take it for a claim on `orders`. Nothing warns of it, and ' +
    'names often come from users.',
  fault:
    'A holds `orders/7`. B asks for `orders`, which nobody holds, and waits in vain. Two programs that take both names in ' +
    'different orders wait for each other for ever.',
  expects: 'stuck-waiter',
  ours: '`etcd:`. A slash in a name becomes `%2F`, so that every name is one part of a key, and no name is in the line of another.',
  promises: { servedWithinMicros: SERVED_MS * 1_000 },
  open: {
    broken: (world) => new GoMutex(world, { looksAgain: true }),
    ours: ours({ query: 'versionWarning=false' }),
  },
  schedule: async (scene) => {
    scene.ttlMs = 6_000
    const [a, b] = [await scene.actor('A'), await scene.actor('B')]
    await a.acquire({ name: 'orders/7' })
    await b.acquire({ name: 'orders', waitMs: SERVED_MS * 1.5 })
    await b.release('orders')
    await a.release('orders/7')
  },
}
