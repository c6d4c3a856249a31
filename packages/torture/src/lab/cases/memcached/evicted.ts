import { memcachedCommand, startMemcached } from 'holdfast-servers'
import type { LabCase } from '../../case.js'
import { AddOnce } from '../../recipes/memcached/add-once.js'
import { ours } from '../../recipes/ours.js'

const TTL_MS = 20_000
const FILLERS = 20_000

export const memcachedEvicted: LabCase = {
  name: 'memcached-evicted',
  title: 'A lock in a cache that is full',
  family: 'memcached',
  stores: ['memcached'],
  story:
    '`add` stores an item only if it is not there, which is all that a lock seems to need, and the cache is there already. ' +
    'But a cache may drop any item at any time. One that is short of memory drops what was not used for longest, and a lock is ' +
    'not used while somebody works under it.',
  fault:
    'A holds the lock. Others fill the cache until the item of the lock is dropped. A has half of its lease to notice. Then B ' +
    'asks, and gets the lock beside A.',
  expects: 'overlap',
  ours:
    '`memcached:`, recipe `record`. It cannot be made right: had B asked before the next renewal of A, there would have been two ' +
    'holders with ours as well. So the store is declared `best-effort` and without fences, and what is promised is that the ' +
    'holder is told. A renewal comes after a third of the lease at the latest, finds no item, and the signal of the hold ' +
    'aborts; by the time B asks, A has stopped. Where two holders would do harm, `requireFence: true` refuses this store.',
  setUp: async (scene) => {
    scene.url = scene.own(await startMemcached({ memoryMb: 2 })).url
  },
  open: { broken: (world) => new AddOnce(world), ours: ours({ query: 'prefix=lock:' }) },
  schedule: async (scene) => {
    scene.ttlMs = TTL_MS
    const port = Number(new URL(scene.url).port)
    const [a, b] = [await scene.actor('A'), await scene.actor('B')]
    await a.acquire()
    scene.faultBegins('evict', 'memcached')
    await scene.until(async () => {
      await fill(port)
      return !(await isThere(port, `lock:${scene.lockName}`))
    })
    scene.faultEnds('evict', 'memcached')
    const latest = performance.now() + TTL_MS / 2
    await scene.until(async () => performance.now() > latest || !(await a.assert()), TTL_MS / 40)
    await b.acquire()
    await a.assert()
    await a.release()
    await b.release()
  },
}

/** Stores items of many sizes, because each size has memory of its own. */
async function fill(port: number): Promise<void> {
  for (const size of [40, 100, 200]) {
    const value = 'x'.repeat(size)
    const sets = Array.from(
      { length: FILLERS },
      (_, index) => `ms filler-${size}-${index} ${size} T600 q\r\n${value}`,
    )
    await memcachedCommand(port, `${sets.join('\r\n')}\r\nmn`, /MN\r\n$/, { timeoutMs: 30_000 })
  }
}

/** Asked in a way that does not count as use, so that the question itself does not keep the item. */
async function isThere(port: number, key: string): Promise<boolean> {
  return !(await memcachedCommand(port, `me ${key}`)).startsWith('EN')
}
