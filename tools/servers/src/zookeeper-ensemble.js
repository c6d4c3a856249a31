// @ts-check
// ZooKeeper servers that elect one of them as their leader.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { returnPort, takePort } from './ports.js'
import { disposeAll, startServer, startTogether } from './process.js'
import { requirePrograms } from './programs.js'
import { addressesOf } from './redis.js'
import { until } from './wait.js'
import { commonSettings, javaArgs, writeSettings, ZookeeperServer, zookeeperPrograms } from './zookeeper.js'
import { startLinks } from './zookeeper-links.js'
import { zookeeperWord } from './zookeeper-wire.js'

/** @typedef {import('./process.js').Place} Place */
/** @typedef {import('./zookeeper.js').ZookeeperOptions} ZookeeperOptions */
/** @typedef {{ readonly quorum: number, readonly election: number }} PeerPorts */

/**
 * @typedef {object} EnsembleOptions
 * @property {number | undefined} [members] Three unless given.
 * @property {boolean | undefined} [cuttable] Whether the servers talk among themselves over proxies, so that `cut` can part them. It
 *   makes them slower, and they stand still while this process computes.
 */

/**
 * @typedef {object} ZookeeperEnsemble
 * @property {string} url `zookeeper://` with the addresses of all servers.
 * @property {readonly ZookeeperServer[]} servers
 * @property {() => Promise<ZookeeperServer>} leader The one that leads most of the servers now; waits for it.
 * @property {() => Promise<readonly ZookeeperServer[]>} followers Those that follow it.
 * @property {(from: ZookeeperServer) => Promise<ZookeeperServer>} failedOver Waits until another server than the given
 *   one leads.
 * @property {() => Promise<void>} settled Waits until every server that runs and is not paused gives sessions.
 * @property {(server: ZookeeperServer, options?: { silently?: boolean }) => void} cut Parts a server from the others;
 *   clients still reach it. Connections are closed and refused, or nothing comes through any more. It needs `cuttable`.
 * @property {(server: ZookeeperServer) => void} heal Joins it with the others again.
 * @property {() => Promise<void>} dispose
 */

// A server that finds nobody to elect waits for longer and longer until it asks again, up to a minute.
const fastElection = ['-Dzookeeper.fastleader.maxNotificationInterval=1000', '-Dzookeeper.cnxTimeout=2000']

/**
 * @param {number} id
 * @param {readonly string[]} members The lines of `zoo.cfg` that name all members.
 * @param {ZookeeperOptions} options
 * @returns {Promise<ZookeeperServer>}
 */
function startMember(id, members, options) {
  const { args = [], settings = [] } = options
  const plan = {
    name: 'zookeeper-member',
    program: 'java',
    prepare: async (/** @type {Place} */ place) => {
      const own = [`clientPort=${place.port}`, ...members, ...settings]
      await writeSettings(place, commonSettings(place, { ...options, settings: own }))
      await writeFile(join(place.folder, 'data', 'myid'), `${id}\n`)
    },
    args: (/** @type {Place} */ place) => javaArgs(place, [...fastElection, ...args]),
    // One member alone serves nobody, and says so. That they work together is for `settled` to see.
    ready: async (/** @type {Place} */ { port }) =>
      (await zookeeperWord(port, 'srvr', { timeoutMs: 2_000 })) !== '',
  }
  return startServer(plan, (_plan, place) => new ZookeeperServer(plan, place))
}

/** @returns {Promise<PeerPorts>} */
async function takePeerPorts() {
  return { quorum: await takePort(), election: await takePort() }
}

/**
 * @param {readonly ZookeeperServer[]} servers
 * @returns {Promise<Map<ZookeeperServer, string | undefined>>} What each server that answers takes itself for.
 */
async function modesOf(servers) {
  const answering = servers.filter((server) => server.answering)
  const modes = await Promise.all(answering.map((server) => server.mode().catch(() => undefined)))
  return new Map(answering.map((server, index) => [server, modes[index]]))
}

/**
 * A leader that was parted from the others may take itself for the leader for a while, so what it says is tried out.
 * @param {readonly ZookeeperServer[]} servers
 */
async function leaderOf(servers) {
  const modes = await modesOf(servers)
  const leaders = [...modes].flatMap(([server, mode]) => (mode === 'leader' ? [server] : []))
  const works = await Promise.all(
    leaders.map((server) =>
      server
        .probe()
        .then(() => true)
        .catch(() => false),
    ),
  )
  return leaders.find((_server, index) => works[index])
}

/**
 * Starts the servers of an ensemble and waits until all of them give sessions.
 * @param {EnsembleOptions & Omit<ZookeeperOptions, 'tls' | 'demandsAuth'>} [options]
 * @returns {Promise<ZookeeperEnsemble>}
 */
export async function startZookeeperEnsemble({ members = 3, cuttable = false, ...options } = {}) {
  requirePrograms(zookeeperPrograms)
  const ports = await Promise.all(Array.from({ length: members }, takePeerPorts))
  const links = cuttable ? await startLinks(ports) : undefined
  const putAway = async () => {
    await links?.dispose()
    for (const { quorum, election } of ports) for (const port of [quorum, election]) returnPort(port)
  }
  /** @param {number} from */
  const linesFor = (from) =>
    ports.map((own, to) => {
      const { quorum, election } = from === to ? own : (links?.portsOf(from, to) ?? own)
      return `server.${to + 1}=127.0.0.1:${quorum}:${election}`
    })
  // Whoever follows a new leader a moment too early finds a closed door, and tries again. Behind a proxy the door is
  // open and nobody is there: it looks for another leader, while the new one waits for it in vain.
  const settings = cuttable ? { initLimit: 4, ...options } : options
  const starts = ports.map((_own, index) => startMember(index + 1, linesFor(index), settings))
  const servers = await startTogether(starts).catch(async (error) => {
    await putAway()
    throw error
  })
  const dispose = async () => {
    await disposeAll(servers)
    await putAway()
  }
  const leader = () => until('a server leads the others', () => leaderOf(servers))
  const settled = () =>
    until('every server of the ensemble gives sessions', async () => {
      await Promise.all(servers.filter((server) => server.answering).map((server) => server.probe()))
      return true
    })
  try {
    await settled()
  } catch (error) {
    await dispose()
    throw error
  }
  /** @param {ZookeeperServer} server */
  const indexOf = (server) => {
    if (links === undefined)
      throw new Error('Only an ensemble that was started with `cuttable` can be parted.')
    return { links, index: servers.indexOf(server) }
  }
  return {
    url: `zookeeper://${addressesOf(servers)}`,
    servers,
    leader,
    followers: async () => {
      const first = await leader()
      const modes = await modesOf(servers)
      return servers.filter((server) => server !== first && modes.get(server) === 'follower')
    },
    failedOver: (from) =>
      until(`another server than the one on port ${from.port} leads`, async () => {
        const found = await leaderOf(servers.filter((server) => server !== from))
        return found
      }),
    settled: async () => void (await settled()),
    cut: (server, { silently = false } = {}) => {
      const { links: cutting, index } = indexOf(server)
      cutting.cut(index, silently)
    },
    heal: (server) => {
      const { links: healing, index } = indexOf(server)
      healing.heal(index)
    },
    dispose,
  }
}
