import type { LabCase } from '../../case.js'
import { GoMutex } from '../../recipes/etcd/go-mutex.js'
import { ours } from '../../recipes/ours.js'

export const etcdNoRecheck: LabCase = {
  name: 'etcd-no-recheck',
  title: 'Whose turn it is, without a look at the own key',
  family: 'etcd',
  stores: ['etcd'],
  story:
    'Each claim is a key that is kept by a lease, and whoever waits, waits for the key before its own to go. The Go package ' +
    'of etcd did so until 3.4.3, and a run of Jepsen found what was missing: while one waits, its own lease can end ' +
    '(issue 11456).',
  fault:
    'B waits behind A, and its process is stopped until its lease has ended and its key is gone. A releases and C gets the ' +
    'lock. B goes on, sees that nobody is before it any more, and takes itself for the holder beside C.',
  expects: 'overlap',
  ours:
    '`etcd:`. When the claim before it is gone, a waiter counts only on a lease that was confirmed in time, and reads the ' +
    'line again otherwise. B does not find its key, takes a new place, and is served after C.',
  setUp: async () => {},
  open: {
    broken: (world) => new GoMutex(world, { looksAgain: false }),
    ours: ours({ query: 'versionWarning=false' }),
  },
  schedule: async (scene) => {
    const server = await scene.start('etcd')
    scene.ttlMs = 4_000
    const [a, b, c] = [await scene.actor('A'), await scene.actor('B'), await scene.actor('C')]
    const claims = async (): Promise<number> => (await server.keys(`${scene.lockName}/`)).length
    await a.acquire()
    const waiting = b.acquire({ waitMs: 60_000 })
    await scene.until(async () => (await claims()) >= 2)
    scene.pause(b)
    await scene.until(async () => (await claims()) <= 1)
    await a.release()
    await c.acquire({ waitMs: 10_000 })
    await scene.resume(b)
    await Promise.race([waiting, scene.sleep(scene.ttlMs)])
    await c.assert()
    await c.release()
    await waiting
    await b.release()
  },
}
