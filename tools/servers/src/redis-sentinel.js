// @ts-check
// A Redis master with replicas, and sentinels that choose another master when it is gone.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { disposeAll, startServer, startTogether } from './process.js'
import { requirePrograms } from './programs.js'
import { addressesOf, dataArgs, RedisServer, redisPlan } from './redis.js'
import { until } from './wait.js'

/** @typedef {import('./redis.js').RedisOptions} RedisOptions */

const masterName = 'holdfast'

/**
 * @typedef {object} SentinelOptions
 * @property {number} [replicas]
 * @property {number} [sentinels]
 * @property {number} [downAfterMs] How long a server may be silent before a sentinel takes it for gone.
 */

/**
 * @typedef {object} RedisSentinel
 * @property {string} url `redis+sentinel://` with the addresses of the sentinels and the name of the master.
 * @property {string} masterName
 * @property {readonly RedisServer[]} servers The first one was the master at the start.
 * @property {readonly RedisServer[]} sentinels
 * @property {() => Promise<RedisServer>} master The present master, as a sentinel says.
 * @property {(from: RedisServer) => Promise<RedisServer>} failedOver Waits until most sentinels name another master
 *   than the given one, and it takes writes.
 * @property {() => Promise<void>} settled Waits until every server that runs and is not paused is the master or a
 *   replica that is in step with it, and every sentinel that runs knows them. A former master that is started again
 *   first believes that it still is the master; the sentinels turn it into a replica after about ten seconds.
 * @property {() => Promise<void>} dispose
 */

/**
 * Starts a server whose role the sentinels may change. They have it write its role into its file, so a restart keeps
 * the role; an argument would take it back to what it was at the beginning.
 * @param {RedisServer | undefined} master
 * @param {Pick<RedisOptions, 'args' | 'persist' | 'clock'>} options
 * @returns {Promise<RedisServer>}
 */
function startDataServer(master, options) {
  const plan = redisPlan({
    name: 'redis',
    clock: options.clock,
    prepare: ({ folder }) =>
      writeFile(
        join(folder, 'redis.conf'),
        master === undefined ? '' : `replicaof 127.0.0.1 ${master.port}\n`,
      ),
    args: (place) => [join(place.folder, 'redis.conf'), ...dataArgs(place, options)],
  })
  return startServer(plan, (_plan, place) => new RedisServer(plan, place))
}

/**
 * @param {RedisServer} master
 * @param {{ quorum: number, downAfterMs: number }} options
 * @returns {Promise<RedisServer>}
 */
function startSentinel(master, { quorum, downAfterMs }) {
  const plan = redisPlan({
    name: 'sentinel',
    prepare: ({ folder }) =>
      writeFile(
        join(folder, 'sentinel.conf'),
        [
          `sentinel monitor ${masterName} 127.0.0.1 ${master.port} ${quorum}`,
          `sentinel down-after-milliseconds ${masterName} ${downAfterMs}`,
          // A failover that fails is tried again after twice this time; the default is three minutes.
          `sentinel failover-timeout ${masterName} ${Math.max(5_000, 3 * downAfterMs)}`,
          '',
        ].join('\n'),
      ),
    args: ({ port, folder }) =>
      // The program redis-server is also the sentinel, so nothing more has to be installed.
      [
        join(folder, 'sentinel.conf'),
        '--sentinel',
        '--port',
        String(port),
        '--bind',
        '127.0.0.1',
        '--dir',
        folder,
      ],
  })
  return startServer(plan, (_plan, place) => new RedisServer(plan, place))
}

/**
 * Asks a sentinel where the master is.
 * @param {RedisServer} sentinel
 * @returns {Promise<number>} Its port.
 */
async function masterPort(sentinel) {
  const address = await sentinel.command('SENTINEL', 'get-master-addr-by-name', masterName)
  if (!Array.isArray(address)) throw new Error(`The sentinel on port ${sentinel.port} knows no master.`)
  return Number(address[1])
}

/**
 * Whether a sentinel knows the whole group: the master, and how many replicas and other sentinels there are.
 * @param {RedisServer} sentinel
 * @param {{ master: RedisServer, replicas: number, others: number }} wanted
 */
async function knows(sentinel, { master, replicas, others }) {
  const reply = await sentinel.command('SENTINEL', 'MASTER', masterName)
  const list = Array.isArray(reply) ? reply.map(String) : []
  const field = (/** @type {string} */ name) => list[list.indexOf(name) + 1]
  return (
    field('port') === String(master.port) &&
    field('flags') === 'master' &&
    Number(field('num-slaves')) >= replicas &&
    Number(field('num-other-sentinels')) >= others
  )
}

/**
 * Whether every server that answers is the master or in step with it.
 * @param {readonly RedisServer[]} servers
 * @param {RedisServer} master
 */
async function inStep(servers, master) {
  const answering = servers.filter((server) => server.answering)
  const infos = await Promise.all(answering.map((server) => server.info('replication')))
  return infos.every((info, index) =>
    answering[index] === master
      ? info.role === 'master' && Number(info.connected_slaves) >= answering.length - 1
      : info.role === 'slave' && info.master_port === String(master.port) && info.master_link_status === 'up',
  )
}

/**
 * @param {readonly RedisServer[]} servers
 * @param {readonly RedisServer[]} sentinels
 * @returns {RedisSentinel}
 */
function sentinelGroup(servers, sentinels) {
  /** @param {number} port */
  const serverOn = (port) => servers.find((server) => server.port === port)
  const answeringSentinels = () => sentinels.filter((sentinel) => sentinel.answering)
  const master = () =>
    until('a sentinel names the master', async () => {
      const ports = await Promise.any(answeringSentinels().map(masterPort))
      return serverOn(ports)
    })
  return {
    url: `redis+sentinel://${addressesOf(sentinels)}/${masterName}`,
    masterName,
    servers,
    sentinels,
    master,
    failedOver: (from) =>
      until(`another server than the one on port ${from.port} is the master`, async () => {
        const answers = await Promise.allSettled(answeringSentinels().map(masterPort))
        const ports = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
        const named = servers.find(
          ({ port }) => 2 * ports.filter((each) => each === port).length > sentinels.length,
        )
        if (named === undefined || named === from) return undefined
        return (await named.info('replication')).role === 'master' ? named : undefined
      }),
    settled: async () => {
      await until('every server and every sentinel of the group is in step', async () => {
        const present = await master()
        const wanted = {
          master: present,
          replicas: servers.filter((server) => server.answering).length - 1,
          others: answeringSentinels().length - 1,
        }
        const known = await Promise.all(answeringSentinels().map((sentinel) => knows(sentinel, wanted)))
        return known.every(Boolean) && (await inStep(servers, present))
      })
    },
    dispose: () => disposeAll([...sentinels, ...servers]),
  }
}

/**
 * Starts a master, its replicas and the sentinels that watch over them, and waits until all know each other.
 * @param {SentinelOptions & Pick<RedisOptions, 'args' | 'persist' | 'clock'>} [options]
 * @returns {Promise<RedisSentinel>}
 */
export async function startRedisSentinel({ replicas = 2, sentinels = 3, downAfterMs = 1_000, ...rest } = {}) {
  requirePrograms(['redis-server'])
  /** @type {RedisServer[]} */
  const started = []
  try {
    const master = await startDataServer(undefined, rest)
    started.push(master)
    started.push(
      ...(await startTogether(Array.from({ length: replicas }, () => startDataServer(master, rest)))),
    )
    // Sentinels that come before the replicas would find them only at the next look, ten seconds later.
    await until('every replica is in step', () => inStep(started, master))
    const settings = { quorum: Math.floor(sentinels / 2) + 1, downAfterMs }
    const watching = await startTogether(
      Array.from({ length: sentinels }, () => startSentinel(master, settings)),
    )
    const group = sentinelGroup([...started], watching)
    started.push(...watching)
    await group.settled()
    return group
  } catch (error) {
    await disposeAll(started)
    throw error
  }
}
