/**
 * Redis behind Sentinel, and a cluster. The servers themselves tell clients where they are; the relays change these addresses
 * into their own. Replication, the cluster bus and what sentinels ask go past the relays.
 */

import {
  ownerOfPort,
  portsOfProcess,
  type RedisSentinel,
  type RedisServer,
  startAddressProxies,
  startRedisCluster,
  startRedisSentinel,
  type TcpProxy,
} from 'holdfast-servers'
import { allLeftovers, type Keep, startStage } from './assemble.js'
import { hasClocks, missingOf } from './programs.js'
import { liveKeys } from './redis.js'
import { networkFaults, oneOf, openConnections, relayAddresses } from './relays.js'
import { reshardFault } from './reshard.js'
import {
  clockStepMs,
  FAILOVER_MS,
  failoverFault,
  killFault,
  pauseFault,
  randomClockStep,
} from './server-faults.js'
import type { Leftover, Ongoing, Stage, StageDefinition, StageFault } from './stage.js'

const TTL_MS = 1_000
const FREED_WITHIN_MS = TTL_MS + 3_000

const missing = () => missingOf(['redis-server'])

export const redisGroupDefinitions: readonly StageDefinition[] = [
  { store: 'redis-sentinel', recipe: 'line', missing, start: startSentinel },
  { store: 'redis-cluster', recipe: 'line', missing, start: startCluster },
]

function startSentinel(): Promise<Stage> {
  return startStage(async (keep) => {
    const group = keep(await startRedisSentinel({ persist: true, clock: hasClocks() }))
    const { servers, sentinels, settled, master } = group
    const relays = await relaysFor(keep, [...servers, ...sentinels])
    const options = { what: 'redis', ttlMs: TTL_MS, settled }
    return {
      store: 'redis-sentinel',
      recipe: 'line',
      url: `redis+sentinel://${relayAddresses(relays.slice(servers.length))}/${group.masterName}`,
      ttlMs: TTL_MS,
      freedWithinMs: FREED_WITHIN_MS + clockStepMs(TTL_MS),
      faults: [
        ...networkFaults(relays, { ttlMs: TTL_MS, duplicate: true }),
        clientPartitionFault(relays.slice(0, servers.length)),
        killFault(servers, options),
        pauseFault(servers, options),
        failoverFault({ servers, leader: master, settled }, 'redis'),
        ...(hasClocks() ? [failoverClockFault(group)] : []),
      ],
      leftovers: async () =>
        allLeftovers([
          openConnections(relays),
          liveKeys(await master()),
          ...[...servers, ...sentinels].map(clientsOf),
        ]),
    }
  })
}

function startCluster(): Promise<Stage> {
  return startStage(async (keep) => {
    const cluster = keep(await startRedisCluster({ persist: true }))
    const { nodes, settled } = cluster
    const relays = await relaysFor(keep, nodes)
    const options = { what: 'redis', ttlMs: TTL_MS, settled }
    return {
      store: 'redis-cluster',
      recipe: 'line',
      url: `redis+cluster://${relayAddresses(relays.slice(0, nodes.length / 2))}`,
      ttlMs: TTL_MS,
      freedWithinMs: FREED_WITHIN_MS,
      faults: [
        ...networkFaults(relays, { ttlMs: TTL_MS, duplicate: true }),
        clientPartitionFault(relays),
        killFault(nodes, options),
        pauseFault(nodes, options),
        failoverFault(
          { servers: nodes, leader: (random) => cluster.masterFor(`any-${random()}`), settled },
          'redis',
        ),
        reshardFault(cluster, TTL_MS),
      ],
      leftovers: () =>
        allLeftovers([openConnections(relays), ...nodes.map(keysOfMaster), ...nodes.map(clientsOf)]),
    }
  })
}

async function relaysFor(keep: Keep, servers: readonly RedisServer[]): Promise<readonly TcpProxy[]> {
  return (await startAddressProxies(servers)).map((relay) => keep(relay))
}

/** One process cannot reach one server; all others can, and it reaches the other servers. */
function clientPartitionFault(relays: readonly TcpProxy[]): StageFault {
  return {
    name: 'partition',
    lastsMs: [TTL_MS / 2, 4 * TTL_MS],
    begin: async (random): Promise<Ongoing> => {
      const used = relays.filter(({ clientPorts }) => clientPorts.length > 0)
      const { chosen: relay } = oneOf(used.length > 0 ? used : relays, random)
      const target = `relay:${relays.indexOf(relay)}`
      if (relay.clientPorts.length === 0) return { target, end: async () => {} }
      const pid = ownerOfPort(oneOf(relay.clientPorts, random).chosen)
      // A process that ended between the two looks has nothing to be cut off.
      if (pid === undefined) return { target, end: async () => {} }
      const heal = relay.isolate((port) => portsOfProcess(pid).has(port))
      return { target: `${target} from process ${pid}`, end: async () => heal() }
    },
  }
}

/** The master crashes while the clocks of its replicas differ from its own, so that the next master has another time. */
function failoverClockFault({ servers, master, failedOver, settled }: RedisSentinel): StageFault {
  return {
    name: 'failover-clock',
    lastsMs: FAILOVER_MS,
    begin: async (random): Promise<Ongoing> => {
      const old = await master()
      const stepMs = randomClockStep(TTL_MS, random)
      const replicas = servers.filter((server) => server !== old)
      for (const replica of replicas) replica.stepClock(stepMs)
      await old.kill()
      return {
        target: `redis:${servers.indexOf(old)} replicas ${stepMs > 0 ? '+' : ''}${stepMs} ms`,
        end: async () => {
          const next = await failedOver(old)
          for (const replica of replicas) replica.stepClock(-stepMs)
          await old.restart()
          // The sentinels would do it after ten seconds.
          await old.command('REPLICAOF', '127.0.0.1', next.port)
          await settled()
        },
      }
    },
  }
}

const NO_CLIENT = / name=sentinel-| age=0 | cmd=restore/

/** A replica answers for no key of its own. */
async function keysOfMaster(node: RedisServer): Promise<readonly Leftover[]> {
  return (await node.info('replication'))['role'] === 'master' ? await liveKeys(node) : []
}

/**
 * Connections of clients: neither of sentinels and replicas, nor those that ask, here and for keys, which last for a
 * moment. A server keeps the connection of a MIGRATE to another one for ten seconds, whose last command is RESTORE-ASKING.
 */
async function clientsOf(server: RedisServer): Promise<readonly Leftover[]> {
  return String(await server.command('CLIENT', 'LIST'))
    .split('\n')
    .filter((line) => / flags=[NP] /.test(line) && !NO_CLIENT.test(line))
    .map((line) => ({ what: 'connection', name: `${server.port} ${/ addr=(\S+)/.exec(line)?.[1] ?? ''}` }))
}
