/** Locks that nobody else wants: what taking one and giving it back costs beside the bare requests. */

import { connect } from 'holdfast'
import { ZooKeeper } from 'holdfast/zookeeper'
import { startZookeeper } from 'holdfast-servers'
import type { Bench, Findings } from '../group.js'
import { compare, measurePairs, type Pair } from '../pairs.js'

const DATA = Buffer.from('me')

/** The least that each recipe has to do: a node, made and removed, by the same client. */
async function openBare(port: number, mode: 'ephemeral-sequential' | 'ephemeral'): Promise<Pair> {
  const client = await ZooKeeper.connect({ hosts: [{ host: '127.0.0.1', port }], sessionMs: 30_000 })
  const made = new Map<string, Promise<unknown>>()
  await client.create('/bare', DATA).catch(() => {})
  return {
    async once(name) {
      const folder = made.get(name) ?? client.create(`/bare/${name}`, DATA).catch(() => {})
      made.set(name, folder)
      await folder
      const { path } = await client.create(`/bare/${name}/lock-`, DATA, { mode })
      await client.delete(path)
    },
    close: () => client.close(),
  }
}

async function openOurs(url: string, recipe: string): Promise<Pair> {
  const locks = await connect(`${url}/${recipe}?recipe=${recipe}`)
  return { once: (name) => locks.mutex(name).run(() => {}), close: () => locks.close() }
}

export async function uncontended(bench: Bench, inFlight: number): Promise<Findings> {
  const server = await startZookeeper()
  try {
    const pairs: readonly (readonly [string, Pair])[] = [
      ['bare sequential', await openBare(server.port, 'ephemeral-sequential')],
      ['sequential', await openOurs(server.url, 'sequential')],
      ['bare ephemeral', await openBare(server.port, 'ephemeral')],
      ['ephemeral', await openOurs(server.url, 'ephemeral')],
      ['bare sequential, once more', await openBare(server.port, 'ephemeral-sequential')],
    ]
    const plan = { inFlight, times: inFlight === 1 ? 100 : 1_280, rounds: bench.quick ? 15 : 51 }
    const [bareLine, line, bareSingle, single, again] = await measurePairs(bench, pairs, plan)
    return {
      title: `zookeeper: acquire + release, uncontended, ${inFlight} in flight`,
      rows: [
        compare('sequential', line, bareLine, 0.8),
        compare('ephemeral', single, bareSingle, 0.8),
        compare('control: the same twice', again, bareLine, null),
      ],
    }
  } finally {
    await server.dispose()
  }
}
