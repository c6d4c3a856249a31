/** Locks that nobody else wants: what taking one and giving it back costs beside a bare add and a bare delete. */

import { connect } from 'holdfast'
import { startMemcached } from 'holdfast-servers'
import type { Bench, Findings } from '../group.js'
import { compare, measurePairs, type Pair } from '../pairs.js'
import { openRaw } from './raw.js'

/** About as long as what the library stores, so that the server has the same to do. */
const VALUE = 'x'.repeat(100)

async function openBare(port: number): Promise<Pair> {
  const raw = await openRaw(port)
  return {
    async once(name) {
      const added = await raw.ask(`ms ${name} ${VALUE.length} ME T32 c\r\n${VALUE}\r\n`)
      const removed = await raw.ask(`md ${name} C${added.slice(4)}\r\n`)
      if (removed !== 'HD') throw new Error(`The bare pair did not lock: ${added}, ${removed}.`)
    },
    close: async () => raw.close(),
  }
}

async function openOurs(url: string, recipe: string): Promise<Pair> {
  const locks = await connect(`${url}?recipe=${recipe}`)
  return { once: (name) => locks.mutex(name).run(() => {}), close: () => locks.close() }
}

export async function uncontended(bench: Bench, inFlight: number): Promise<Findings> {
  const server = await startMemcached()
  try {
    const opened: readonly (readonly [string, Pair])[] = [
      ['bare add + delete', await openBare(server.port)],
      ['record', await openOurs(server.url, 'record')],
      ['add', await openOurs(server.url, 'add')],
      ['bare, once more', await openBare(server.port)],
    ]
    const plan = { inFlight, times: inFlight === 1 ? 200 : 3_200, rounds: bench.quick ? 31 : 101 }
    const [bare, record, add, again] = await measurePairs(bench, opened, plan)
    return {
      title: `memcached: acquire + release, uncontended, ${inFlight} in flight`,
      rows: [
        compare('record', record, bare, 0.8),
        compare('add', add, bare, 0.8),
        compare('control: the same twice', again, bare, null),
      ],
    }
  } finally {
    await server.dispose()
  }
}
