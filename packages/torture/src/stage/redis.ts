/** Redis: one server with the recipes `line` and `set-nx`, and five masters with `redlock`. */

import {
  type RedisServer,
  squeezeRedis,
  startRedis,
  startRedisMasters,
  startRedisReplica,
  type TcpProxy,
} from 'holdfast-servers'
import { allLeftovers, type Keep, type StagePlan, startStage } from './assemble.js'
import { hasClocks, missingOf } from './programs.js'
import { networkFaults, oneOf, openConnections, relayAddresses, startRelays } from './relays.js'
import { clockFault, clockStepMs, killFault, pauseFault } from './server-faults.js'
import type { Leftover, Ongoing, Stage, StageDefinition, StageFault } from './stage.js'
import { failoverClockFault, Succession, swapFault } from './succession.js'

const TTL_MS = 1_000
const MASTERS = 5
const PROGRAMS = ['redis-server']

export const redisDefinitions: readonly StageDefinition[] = [
  ...['line', 'set-nx'].map((recipe) => ({
    store: 'redis',
    recipe,
    missing: () => missingOf(PROGRAMS),
    start: () => startSingle(recipe),
  })),
  { store: 'redis', recipe: 'redlock', missing: () => missingOf(PROGRAMS), start: startRedlock },
]

function startSingle(recipe: string): Promise<Stage> {
  return startStage(async (keep) => {
    // A restart of a server that keeps nothing frees every lock, which is no news; so this one keeps all of them.
    const server = keep(await startRedis({ persist: true, clock: hasClocks() }))
    const relays = await startRelays(keep, [server])
    return planRedis(keep, recipe, [server], relays, `redis://${relayAddresses(relays)}?recipe=${recipe}`)
  })
}

function startRedlock(): Promise<Stage> {
  return startStage(async (keep) => {
    const { servers } = keep(await startRedisMasters(MASTERS, { persist: true, clock: hasClocks() }))
    const relays = await startRelays(keep, servers)
    // Servers that lose no write in a crash may have a say as soon as they are back.
    const url = `redis+redlock://${relayAddresses(relays)}?restartDelayMs=0`
    return planRedis(keep, 'redlock', servers, relays, url)
  })
}

function planRedis(
  keep: Keep,
  recipe: string,
  servers: readonly RedisServer[],
  relays: readonly TcpProxy[],
  url: string,
): StagePlan {
  const options = { what: 'redis', ttlMs: TTL_MS }
  const places = servers.map((server) => new Succession(server))
  const startStandby = (master: RedisServer) =>
    startRedisReplica(master, { persist: true, clock: hasClocks() })
  const succession = { ...options, keep, startStandby }
  return {
    store: 'redis',
    recipe,
    url,
    ttlMs: TTL_MS,
    freedWithinMs: TTL_MS + clockStepMs(TTL_MS) + 2_000,
    faults: [
      ...networkFaults(relays, { ttlMs: TTL_MS, duplicate: true }),
      killFault(places, options),
      pauseFault(places, options),
      swapFault(places, relays, succession),
      ...(hasClocks() ? [failoverClockFault(places, relays, succession), clockFault(places, options)] : []),
      evictFault(places),
    ],
    leftovers: () =>
      allLeftovers([openConnections(relays), ...places.map(({ current }) => liveKeys(current))]),
  }
}

function evictFault(places: readonly Succession<RedisServer>[]): StageFault {
  return {
    name: 'evict',
    lastsMs: [200, 2 * TTL_MS],
    begin: async (random): Promise<Ongoing> => {
      const { chosen, index } = oneOf(places, random)
      const relax = await squeezeRedis(chosen.current)
      return { target: `redis:${index}`, end: relax }
    },
  }
}

/** Keys that keep somebody from a lock. One that only remembers the last fence of a name is there on purpose. */
export async function liveKeys(server: RedisServer): Promise<readonly Leftover[]> {
  const found: Leftover[] = []
  for (const key of await keysOf(server)) {
    if (await isLive(server, key)) found.push({ what: 'key', name: key })
  }
  return found
}

async function keysOf(server: RedisServer): Promise<readonly string[]> {
  const keys = new Set<string>()
  let cursor = '0'
  do {
    const reply = await server.command('SCAN', cursor, 'COUNT', 1_000)
    const [next, page] = Array.isArray(reply) ? reply : []
    cursor = String(next)
    for (const key of Array.isArray(page) ? page : []) keys.add(String(key))
  } while (cursor !== '0')
  return [...keys]
}

/** The first line of what `line` keeps: the kind, the limit, the last fence, the sum of all weights, the end of the last. */
const HEAD = /^\S+ \d+ \d+ (\d+) (\d+)\n/

async function isLive(server: RedisServer, key: string): Promise<boolean> {
  const value = await server.command('GET', key).catch(() => 'something else than a text')
  if (value === null) return false
  const head = HEAD.exec(String(value))
  if (head === null) return true
  const [seconds] = (await server.command('TIME')) as readonly unknown[]
  return Number(head[1]) > 0 && Number(head[2]) > Number(seconds) * 1_000
}
