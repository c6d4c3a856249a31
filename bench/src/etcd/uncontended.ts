/** Locks that nobody else wants: what taking one and giving it back costs beside the bare requests, and beside etcd3. */

import { Etcd3 } from 'etcd3'
import { connect } from 'holdfast'
import { startEtcd } from 'holdfast-servers'
import type { Bench, Findings } from '../group.js'
import { compare, measurePairs, type Pair } from '../pairs.js'
import { BareEtcd } from './bare.js'

async function openOurs(url: string): Promise<Pair> {
  const locks = await connect(`${url}?versionWarning=false`)
  return { once: (name) => locks.mutex(name).run(() => {}), close: () => locks.close() }
}

async function openEtcd3(endpoint: string): Promise<Pair> {
  const client = new Etcd3({ hosts: endpoint })
  return {
    async once(name) {
      const lock = client.lock(name)
      await lock.acquire()
      await lock.release()
    },
    close: async () => client.close(),
  }
}

export async function uncontended(bench: Bench, inFlight: number): Promise<Findings> {
  const server = await startEtcd()
  try {
    const endpoint = `127.0.0.1:${server.port}`
    const opened: readonly (readonly [string, Pair])[] = [
      ['bare', await new BareEtcd(endpoint).open()],
      ['holdfast', await openOurs(server.url)],
      ['etcd3', await openEtcd3(endpoint)],
      ['bare-once-more', await new BareEtcd(endpoint).open()],
    ]
    const plan = { inFlight, times: inFlight === 1 ? 60 : 640, rounds: bench.quick ? 15 : 51 }
    const [bare, ours, etcd3, again] = await measurePairs(bench, opened, plan)
    return {
      title: `etcd: acquire + release, uncontended, ${inFlight} in flight`,
      rows: [
        compare('against the bare requests', ours, bare, 0.8),
        compare('against the lock of etcd3', ours, etcd3, 1),
        compare('control: the same twice', again, bare, null),
      ],
    }
  } finally {
    await server.dispose()
  }
}
