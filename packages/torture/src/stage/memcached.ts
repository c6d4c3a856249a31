/** memcached, with little memory, so that it drops items when others come. Its leases go by the monotonic clock. */

import { type MemcachedServer, memcachedCommand, squeezeMemcached, startMemcached } from 'holdfast-servers'
import { allLeftovers, startStage } from './assemble.js'
import { missingOf } from './programs.js'
import { networkFaults, openConnections, relayAddresses, startRelays } from './relays.js'
import { killFault, pauseFault } from './server-faults.js'
import type { Leftover, Ongoing, Stage, StageDefinition, StageFault } from './stage.js'

const TTL_MS = 1_000
/** How much longer than its lease the server may keep an item, which it counts in whole seconds. */
const ROUNDING_MS = 3_000
const MEMORY_MB = 2

export const memcachedDefinitions: readonly StageDefinition[] = ['record', 'add'].map((recipe) => ({
  store: 'memcached',
  recipe,
  missing: () => missingOf(['memcached']),
  start: () => start(recipe),
}))

function start(recipe: string): Promise<Stage> {
  return startStage(async (keep) => {
    const server = keep(await startMemcached({ memoryMb: MEMORY_MB }))
    const relays = await startRelays(keep, [server])
    const options = { what: 'memcached', ttlMs: TTL_MS }
    return {
      store: 'memcached',
      recipe,
      url: `memcached://${relayAddresses(relays)}?recipe=${recipe}`,
      ttlMs: TTL_MS,
      freedWithinMs: TTL_MS + ROUNDING_MS + 1_000,
      faults: [
        ...networkFaults(relays, { ttlMs: TTL_MS, duplicate: true }),
        killFault([server], options),
        pauseFault([server], options),
        evictFault(server),
      ],
      leftovers: () => allLeftovers([openConnections(relays), liveItems(server)]),
    }
  })
}

function evictFault(server: MemcachedServer): StageFault {
  return {
    name: 'evict',
    lastsMs: [100, 1_000],
    begin: async (): Promise<Ongoing> => {
      await squeezeMemcached(server)
      // What was written to that end goes by itself.
      return { target: 'memcached:0', end: async () => {} }
    },
  }
}

const FILLER = 'filler'

async function liveItems(server: MemcachedServer): Promise<readonly Leftover[]> {
  const { time } = await server.stats()
  const items = await memcachedCommand(server.port, 'lru_crawler metadump all', /END\r\n$/)
  return [...items.matchAll(/^key=(\S+) exp=(-?\d+)/gm)].flatMap(([, key = '', expires]) => {
    const name = decodeURIComponent(key)
    const isOver = Number(expires) >= 0 && Number(expires) <= Number(time)
    return isOver || name.startsWith(FILLER) ? [] : [{ what: 'item', name }]
  })
}
