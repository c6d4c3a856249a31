/** ZooKeeper: one server, and an ensemble of three. Its sessions are counted in ticks of the monotonic clock. */

import {
  startZookeeper,
  startZookeeperEnsemble,
  type TcpProxy,
  type ZookeeperEnsemble,
  type ZookeeperServer,
} from 'holdfast-servers'
import { allLeftovers, type StagePlan, startStage } from './assemble.js'
import { missingOf } from './programs.js'
import { networkFaults, oneOf, openConnections, relayAddresses, startRelays } from './relays.js'
import { failoverFault, killFault, pauseFault } from './server-faults.js'
import type { Leftover, Ongoing, Stage, StageDefinition, StageFault } from './stage.js'

const TTL_MS = 1_500
const SESSION_MS = 3_000
const TICK_MS = 500
/** A server that comes back, and a new leader, begin all sessions anew. */
const FREED_WITHIN_MS = 2 * (SESSION_MS + TICK_MS) + 3_000
const PROGRAMS = ['java', 'zookeeper.jar', 'commons-lang3.jar']
const RECIPES = ['sequential', 'ephemeral']

const missing = () => missingOf(PROGRAMS)

export const zookeeperDefinitions: readonly StageDefinition[] = [
  ...RECIPES.map((recipe) => ({ store: 'zookeeper', recipe, missing, start: () => startSingle(recipe) })),
  ...RECIPES.map((recipe) => ({
    store: 'zookeeper-ensemble',
    recipe,
    missing,
    start: () => startEnsemble(recipe),
  })),
]

function startSingle(recipe: string): Promise<Stage> {
  return startStage(async (keep) => {
    const server = keep(await startZookeeper({ tickTime: TICK_MS }))
    const relays = await startRelays(keep, [server])
    const options = { what: 'zookeeper', ttlMs: TTL_MS }
    return {
      ...common(recipe, relays, async () => server),
      store: 'zookeeper',
      faults: [
        ...networkFaults(relays, { ttlMs: TTL_MS, duplicate: false }),
        killFault([server], options),
        pauseFault([server], options),
      ],
    }
  })
}

function startEnsemble(recipe: string): Promise<Stage> {
  return startStage(async (keep) => {
    // The fewer ticks a leader may hang, the sooner another one is chosen.
    const ensemble = keep(await startZookeeperEnsemble({ tickTime: TICK_MS, syncLimit: 4, cuttable: true }))
    const { servers, settled, leader } = ensemble
    const relays = await startRelays(keep, servers)
    const options = { what: 'zookeeper', ttlMs: TTL_MS, settled }
    return {
      ...common(recipe, relays, leader),
      store: 'zookeeper-ensemble',
      faults: [
        ...networkFaults(relays, { ttlMs: TTL_MS, duplicate: false }),
        killFault(servers, options),
        pauseFault(servers, options),
        failoverFault(ensemble, 'zookeeper'),
        partitionFault(ensemble),
      ],
    }
  })
}

function common(
  recipe: string,
  relays: readonly TcpProxy[],
  leader: () => Promise<ZookeeperServer>,
): Omit<StagePlan, 'store' | 'faults'> {
  return {
    recipe,
    url: `zookeeper://${relayAddresses(relays)}/locks?recipe=${recipe}&sessionMs=${SESSION_MS}`,
    ttlMs: TTL_MS,
    freedWithinMs: FREED_WITHIN_MS,
    leftovers: async () => allLeftovers([openConnections(relays), leftAt(await leader())]),
  }
}

/** One server is cut off from the others, with or without a word, and clients still reach it. */
function partitionFault(ensemble: ZookeeperEnsemble): StageFault {
  return {
    name: 'partition',
    lastsMs: [500, 4 * TTL_MS],
    begin: async (random): Promise<Ongoing> => {
      const { chosen, index } = oneOf(ensemble.servers, random)
      ensemble.cut(chosen, { silently: random() < 0.5 })
      return {
        target: `zookeeper:${index}`,
        end: async () => {
          ensemble.heal(chosen)
          await ensemble.settled()
        },
      }
    },
  }
}

/** The leader knows all sessions, and what vanishes with them. The folders of names are removed by the servers in time. */
async function leftAt(server: ZookeeperServer): Promise<readonly Leftover[]> {
  const text = await server.word('dump')
  const sessions = new Set([...text.matchAll(/^\s*(0x[0-9a-f]+)\b/gm)].map(([, id = '']) => id))
  const nodes = [...text.matchAll(/^\s*(\/\S+)$/gm)].map(([, path = '']) => path)
  return [
    ...[...sessions].map((name) => ({ what: 'session', name })),
    ...nodes.map((name) => ({ what: 'znode', name })),
  ]
}
