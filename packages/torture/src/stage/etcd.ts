/** etcd: one server, and three that elect a leader. Its leases go by the monotonic clock, which nobody can set. */

import {
  type EtcdCluster,
  type EtcdServer,
  startEtcd,
  startEtcdCluster,
  type TcpProxy,
} from 'holdfast-servers'
import { allLeftovers, type StagePlan, startStage } from './assemble.js'
import { missingOf } from './programs.js'
import { networkFaults, oneOf, openConnections, relayAddresses, startRelays } from './relays.js'
import { failoverFault, killFault, pauseFault } from './server-faults.js'
import type { Leftover, Ongoing, Stage, StageDefinition, StageFault } from './stage.js'

const TTL_MS = 1_200
/** The shortest that there is. */
const LEASE_MS = 2_000
/** A new leader begins all leases anew, after an election, and is not quick to find the first that is over. */
const FREED_WITHIN_MS = 2 * LEASE_MS + 4_000

const missing = () => missingOf(['etcd'])

export const etcdDefinitions: readonly StageDefinition[] = [
  { store: 'etcd', recipe: 'lease', missing, start: startSingle },
  { store: 'etcd-cluster', recipe: 'lease', missing, start: startCluster },
]

function startSingle(): Promise<Stage> {
  return startStage(async (keep) => {
    const server = keep(await startEtcd())
    const relays = await startRelays(keep, [server])
    const options = { what: 'etcd', ttlMs: TTL_MS }
    return {
      ...common([server], relays),
      store: 'etcd',
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
    const cluster = keep(await startEtcdCluster())
    const { members: servers, settled } = cluster
    const relays = await startRelays(keep, servers)
    const options = { what: 'etcd', ttlMs: TTL_MS, settled }
    return {
      ...common(servers, relays),
      store: 'etcd-cluster',
      faults: [
        ...networkFaults(relays, { ttlMs: TTL_MS, duplicate: false }),
        killFault(servers, options),
        pauseFault(servers, options),
        failoverFault({ ...cluster, servers }, 'etcd'),
        partitionFault(cluster),
      ],
    }
  })
}

function common(
  servers: readonly EtcdServer[],
  relays: readonly TcpProxy[],
): Omit<StagePlan, 'store' | 'faults'> {
  return {
    recipe: 'lease',
    // Debian's version is one that Holdfast warns of, which every worker would do.
    url: `etcd://${relayAddresses(relays)}?versionWarning=false`,
    ttlMs: TTL_MS,
    freedWithinMs: FREED_WITHIN_MS,
    leftovers: () => allLeftovers([openConnections(relays), leftIn(servers)]),
  }
}

/** One member is cut off from the others, and clients still reach it. */
function partitionFault(cluster: EtcdCluster): StageFault {
  return {
    name: 'partition',
    lastsMs: [500, 4 * TTL_MS],
    begin: async (random): Promise<Ongoing> => {
      const { chosen, index } = oneOf(cluster.members, random)
      await cluster.isolate(chosen)
      return {
        target: `etcd:${index}`,
        end: async () => {
          cluster.heal()
          await cluster.settled()
        },
      }
    },
  }
}

async function leftIn([server]: readonly EtcdServer[]): Promise<readonly Leftover[]> {
  if (server === undefined) return []
  const [keys, leases] = await Promise.all([server.keys(''), server.leases()])
  return [...keys.map((name) => ({ what: 'key', name })), ...leases.map((name) => ({ what: 'lease', name }))]
}
