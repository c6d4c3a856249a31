// @ts-check
// A Redis Cluster. It is made with the commands of the servers, so no other program is needed.
import { disposeAll, startServer, startTogether } from './process.js'
import { requirePrograms } from './programs.js'
import { addressesOf, dataArgs, RedisServer, redisPlan } from './redis.js'
import { fieldsOf } from './resp.js'
import { until } from './wait.js'

/** @typedef {import('./redis.js').RedisOptions} RedisOptions */

const slotCount = 16_384
const busOffset = 10_000

/**
 * @typedef {object} ClusterOptions
 * @property {number} [masters] At least three; fewer cannot agree on a failover.
 * @property {number} [replicas] How many in all. They are given to the masters in turn.
 * @property {number} [nodeTimeoutMs] How long a node may be silent before the others take it for gone.
 */

/**
 * @typedef {object} RedisCluster
 * @property {string} url `redis+cluster://` with the addresses of the nodes that were masters at the start.
 * @property {readonly RedisServer[]} nodes The masters of the start come first.
 * @property {(key: string) => Promise<RedisServer>} masterFor The node that serves a key, as most nodes say.
 * @property {(key: string, from: RedisServer) => Promise<RedisServer>} failedOver Waits until another node than the
 *   given one serves a key.
 * @property {() => Promise<void>} settled Waits until all nodes that run and are not paused say that the cluster is
 *   well and agree on who serves what, and every replica among them is in step with its master.
 * @property {() => Promise<void>} dispose
 */

/**
 * @param {number} nodeTimeoutMs
 * @param {Pick<RedisOptions, 'args' | 'persist'>} options
 * @returns {Promise<RedisServer>}
 */
function startNode(nodeTimeoutMs, { args = [], persist }) {
  const enabled = ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf']
  const settings = ['--cluster-node-timeout', String(nodeTimeoutMs), '--cluster-announce-ip', '127.0.0.1']
  const plan = redisPlan({
    name: 'redis-node',
    companion: busOffset,
    args: (place) => dataArgs(place, { args: [...enabled, ...settings, ...args], persist }),
  })
  return startServer(plan, (_plan, place) => new RedisServer(plan, place))
}

/**
 * The slots that one of several masters takes.
 * @param {number} index
 * @param {number} masters
 */
function slotsOf(index, masters) {
  const bound = (/** @type {number} */ part) => Math.round((slotCount * part) / masters)
  return Array.from({ length: bound(index + 1) - bound(index) }, (_, offset) => bound(index) + offset)
}

/**
 * Makes nodes that know nothing of each other into a cluster.
 * @param {readonly RedisServer[]} nodes
 * @param {number} masters
 */
async function join(nodes, masters) {
  // Two nodes with the same epoch would first have to settle which of them is right.
  await Promise.all(nodes.map((node, index) => node.command('CLUSTER', 'SET-CONFIG-EPOCH', index + 1)))
  await Promise.all(
    nodes
      .slice(0, masters)
      .map((node, index) => node.command('CLUSTER', 'ADDSLOTS', ...slotsOf(index, masters))),
  )
  const [first] = nodes
  for (const node of nodes.slice(1)) await first?.command('CLUSTER', 'MEET', '127.0.0.1', node.port)
  await until('every node knows all others', async () => {
    const infos = await Promise.all(nodes.map(clusterInfo))
    return infos.every((info) => Number(info.cluster_known_nodes) === nodes.length)
  })
  const ids = await Promise.all(nodes.slice(0, masters).map((node) => node.command('CLUSTER', 'MYID')))
  await Promise.all(
    nodes.slice(masters).map((node, index) =>
      // A node may know another one and not yet know that it is a master.
      until(`the node on port ${node.port} is a replica`, async () => {
        await node.command('CLUSTER', 'REPLICATE', String(ids[index % masters]))
        return true
      }),
    ),
  )
}

/** @param {RedisServer} node */
async function clusterInfo(node) {
  return fieldsOf(await node.command('CLUSTER', 'INFO'))
}

/**
 * Asks a node who serves which slots.
 * @param {RedisServer} node
 * @returns {Promise<Array<{ from: number, to: number, port: number }>>} In the order of the slots.
 */
async function slotRanges(node) {
  const reply = await node.command('CLUSTER', 'SLOTS')
  const ranges = (Array.isArray(reply) ? reply : []).flatMap((range) => {
    const [from, to, owner] = Array.isArray(range) ? range : []
    return Array.isArray(owner) ? [{ from: Number(from), to: Number(to), port: Number(owner[1]) }] : []
  })
  return ranges.sort((one, other) => one.from - other.from)
}

/**
 * Asks every node that answers who serves a key.
 * @param {readonly RedisServer[]} nodes
 * @param {string} key
 * @returns {Promise<RedisServer | undefined>} The one that most of all nodes name, if there is one.
 */
async function ownerOf(nodes, key) {
  const answering = nodes.filter((node) => node.answering)
  const slot = Number(await Promise.any(answering.map((node) => node.command('CLUSTER', 'KEYSLOT', key))))
  const answers = await Promise.allSettled(answering.map(slotRanges))
  const ports = answers.flatMap((answer) => {
    if (answer.status === 'rejected') return []
    return [answer.value.find(({ from, to }) => from <= slot && slot <= to)?.port]
  })
  return nodes.find(({ port }) => 2 * ports.filter((each) => each === port).length > ports.length)
}

/**
 * Whether the nodes that answer are well and of one mind. A former master that has just been started again says that
 * the cluster is well and still takes itself for the master.
 * @param {readonly RedisServer[]} nodes
 */
async function isWell(nodes) {
  const answering = nodes.filter((node) => node.answering)
  const views = await Promise.all(
    answering.map(async (node) => ({
      port: node.port,
      state: (await clusterInfo(node)).cluster_state,
      ranges: await slotRanges(node),
      replication: await node.info('replication'),
    })),
  )
  return views.every(
    ({ port, state, ranges, replication }) =>
      state === 'ok' &&
      JSON.stringify(ranges) === JSON.stringify(views[0]?.ranges) &&
      (ranges.some((range) => range.port === port) || replication.master_link_status === 'up'),
  )
}

/**
 * Starts the nodes, makes them into a cluster and waits until all of them say that it is well.
 * @param {ClusterOptions & Pick<RedisOptions, 'args' | 'persist'>} [options]
 * @returns {Promise<RedisCluster>}
 */
export async function startRedisCluster({ masters = 3, replicas = 3, nodeTimeoutMs = 2_000, ...rest } = {}) {
  requirePrograms(['redis-server'])
  const nodes = await startTogether(
    Array.from({ length: masters + replicas }, () => startNode(nodeTimeoutMs, rest)),
  )
  const settled = async () => {
    await until('every node of the cluster is well', () => isWell(nodes))
  }
  try {
    await join(nodes, masters)
    await settled()
  } catch (error) {
    await disposeAll(nodes)
    throw error
  }
  return {
    url: `redis+cluster://${addressesOf(nodes.slice(0, masters))}`,
    nodes,
    masterFor: (key) => until(`the nodes agree on who serves '${key}'`, () => ownerOf(nodes, key)),
    failedOver: (key, from) =>
      until(`another node than the one on port ${from.port} serves '${key}'`, async () => {
        const owner = await ownerOf(nodes, key)
        return owner === from ? undefined : owner
      }),
    settled,
    dispose: () => disposeAll(nodes),
  }
}
