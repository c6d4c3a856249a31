/**
 * Redis behind Sentinel, and a cluster. The servers themselves tell clients where they are, so clients go past any relay:
 * there are no faults of the network here, and connections are counted at the servers.
 */

import { type RedisServer, startRedisCluster, startRedisSentinel } from 'holdfast-servers'
import { allLeftovers, startStage } from './assemble.js'
import { missingOf } from './programs.js'
import { liveKeys } from './redis.js'
import { failoverFault, killFault, pauseFault } from './server-faults.js'
import type { Leftover, Stage, StageDefinition } from './stage.js'

const TTL_MS = 1_000
const FREED_WITHIN_MS = TTL_MS + 3_000

const missing = () => missingOf(['redis-server'])

export const redisGroupDefinitions: readonly StageDefinition[] = [
  { store: 'redis-sentinel', recipe: 'line', missing, start: startSentinel },
  { store: 'redis-cluster', recipe: 'line', missing, start: startCluster },
]

function startSentinel(): Promise<Stage> {
  return startStage(async (keep) => {
    const group = keep(await startRedisSentinel({ persist: true }))
    const { servers, settled, master } = group
    const options = { what: 'redis', ttlMs: TTL_MS, settled }
    return {
      store: 'redis-sentinel',
      recipe: 'line',
      url: group.url,
      ttlMs: TTL_MS,
      freedWithinMs: FREED_WITHIN_MS,
      faults: [
        killFault(servers, options),
        pauseFault(servers, options),
        failoverFault({ servers, leader: master, settled }, 'redis'),
      ],
      leftovers: async () =>
        allLeftovers([liveKeys(await master()), ...[...servers, ...group.sentinels].map(clientsOf)]),
    }
  })
}

function startCluster(): Promise<Stage> {
  return startStage(async (keep) => {
    const cluster = keep(await startRedisCluster({ persist: true }))
    const { nodes, settled } = cluster
    const options = { what: 'redis', ttlMs: TTL_MS, settled }
    return {
      store: 'redis-cluster',
      recipe: 'line',
      url: cluster.url,
      ttlMs: TTL_MS,
      freedWithinMs: FREED_WITHIN_MS,
      faults: [
        killFault(nodes, options),
        pauseFault(nodes, options),
        failoverFault(
          { servers: nodes, leader: (random) => cluster.masterFor(`any-${random()}`), settled },
          'redis',
        ),
      ],
      leftovers: () => allLeftovers([...nodes.map(keysOfMaster), ...nodes.map(clientsOf)]),
    }
  })
}

/** A replica answers for no key of its own. */
async function keysOfMaster(node: RedisServer): Promise<readonly Leftover[]> {
  return (await node.info('replication'))['role'] === 'master' ? await liveKeys(node) : []
}

/**
 * Connections of clients: neither of sentinels and replicas, nor those that ask, here and for keys, which last for a
 * moment.
 */
async function clientsOf(server: RedisServer): Promise<readonly Leftover[]> {
  return String(await server.command('CLIENT', 'LIST'))
    .split('\n')
    .filter((line) => / flags=[NP] /.test(line) && !/ name=sentinel-/.test(line) && !/ age=0 /.test(line))
    .map((line) => ({ what: 'connection', name: `${server.port} ${/ addr=(\S+)/.exec(line)?.[1] ?? ''}` }))
}
