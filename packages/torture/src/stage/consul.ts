/** Consul: one server, and three that elect a leader. Its sessions go by the monotonic clock of the leader. */

import { type ConsulServer, startConsul, startConsulCluster, type TcpProxy } from 'holdfast-servers'
import { allLeftovers, type StagePlan, startStage } from './assemble.js'
import { missingOf } from './programs.js'
import { networkFaults, openConnections, relayAddresses, startRelays } from './relays.js'
import { failoverFault, killFault, pauseFault } from './server-faults.js'
import type { Leftover, Stage, StageDefinition } from './stage.js'

const TTL_MS = 1_000
/** A session ends within two ttls after it was last heard of, and a new leader begins anew. */
const FREED_WITHIN_MS = 4 * TTL_MS + 4_000

const missing = () => missingOf(['consul'])

export const consulDefinitions: readonly StageDefinition[] = [
  { store: 'consul', recipe: 'session', missing, start: startSingle },
  { store: 'consul-cluster', recipe: 'session', missing, start: startCluster },
]

function startSingle(): Promise<Stage> {
  return startStage(async (keep) => {
    const server = keep(await startConsul())
    const relays = await startRelays(keep, [server])
    const options = { what: 'consul', ttlMs: TTL_MS }
    return {
      ...common([server], relays),
      store: 'consul',
      faults: [
        ...networkFaults(relays, { ttlMs: TTL_MS, duplicate: false }),
        killFault([server], options),
        pauseFault([server], options),
      ],
    }
  })
}

function startCluster(): Promise<Stage> {
  return startStage(async (keep) => {
    const cluster = keep(await startConsulCluster())
    const { servers, settled } = cluster
    const relays = await startRelays(keep, servers)
    const options = { what: 'consul', ttlMs: TTL_MS, settled }
    return {
      ...common(servers, relays),
      store: 'consul-cluster',
      faults: [
        ...networkFaults(relays, { ttlMs: TTL_MS, duplicate: false }),
        killFault(servers, options),
        pauseFault(servers, options),
        failoverFault(cluster, 'consul'),
      ],
    }
  })
}

function common(
  servers: readonly ConsulServer[],
  relays: readonly TcpProxy[],
): Omit<StagePlan, 'store' | 'faults'> {
  return {
    recipe: 'session',
    // Without the delay after a loss, only the clock of the former holder keeps the next one from being too early.
    url: `consul://${relayAddresses(relays)}?ttlMinMs=${TTL_MS}&lockDelayMs=0`,
    ttlMs: TTL_MS,
    freedWithinMs: FREED_WITHIN_MS,
    leftovers: () => allLeftovers([openConnections(relays), leftIn(servers)]),
  }
}

/**
 * Records of semaphores count, too: everybody takes every lock once more after the last fault, and whoever leaves last
 * removes the record. It would stay only if the session of a killed holder outlasted even that.
 */
async function leftIn([server]: readonly ConsulServer[]): Promise<readonly Leftover[]> {
  if (server === undefined) return []
  const keys = await listed(server, '/v1/kv/?keys=true&consistent')
  const sessions = await listed(server, '/v1/session/list?consistent')
  return [
    ...keys.map((name) => ({ what: 'key', name: String(name) })),
    ...sessions.map((session) => ({ what: 'session', name: String(Reflect.get(Object(session), 'ID')) })),
  ]
}

async function listed(server: ConsulServer, path: string): Promise<readonly unknown[]> {
  const { status, text } = await server.request('GET', path)
  // That there is no key is told like this.
  if (status === 404) return []
  const answer: unknown = JSON.parse(text)
  return Array.isArray(answer) ? answer : []
}
