// @ts-check
// etcd: one server, or several that elect a leader. All keep their data on the disk, so that a restart finds it again.
import { basename, join } from 'node:path'
import { makeCertificate } from './certificate.js'
import { controlledStore } from './controlled.js'
import { PeerRelay } from './etcd-peers.js'
import { base64, etcdRequest } from './etcd-wire.js'
import { returnPort, takePort } from './ports.js'
import { disposeAll, ServerProcess, startServer, startTogether } from './process.js'
import { requirePrograms } from './programs.js'
import { addressesOf } from './redis.js'
import { until } from './wait.js'

/** @typedef {import('./process.js').Place} Place */

/**
 * @typedef {object} EtcdOptions
 * @property {readonly string[] | undefined} [args] More arguments for etcd, for example
 *   `['--quota-backend-bytes=16777216']`. They win over the settings of this package.
 * @property {boolean | undefined} [tls] Whether clients must speak TLS; the certificate is signed by itself.
 */

/** Where a member hears the others, and what they call it. @typedef {{ listen: number, advertise: number }} PeerPorts */

/** An etcd server that was started here. */
export class EtcdServer extends ServerProcess {
  #ca
  #onDispose

  /**
   * Use `startEtcd`.
   * @param {import('./process.js').ServerPlan} plan
   * @param {Place} place
   * @param {{ readonly file: string, readonly text: string } | undefined} ca
   * @param {() => void} onDispose
   */
  constructor(plan, place, ca, onDispose) {
    super(plan, place)
    this.#ca = ca
    this.#onDispose = onDispose
  }

  get host() {
    return '127.0.0.1'
  }

  get url() {
    return `${this.#ca === undefined ? 'etcd' : 'etcds'}://${this.host}:${this.port}`
  }

  /** The file with the certificate to trust, if the server speaks TLS. */
  get ca() {
    return this.#ca?.file
  }

  /** What `etcdctl` needs in its environment to reach this server. */
  get env() {
    const scheme = this.#ca === undefined ? 'http' : 'https'
    const trusted = this.#ca === undefined ? {} : { ETCDCTL_CACERT: this.#ca.file }
    return { ETCDCTL_API: '3', ETCDCTL_ENDPOINTS: `${scheme}://${this.host}:${this.port}`, ...trusted }
  }

  /**
   * Sends one request over a connection of its own. Keys and values are base64.
   * @param {string} path Such as `/v3/kv/range`.
   * @param {object} [body]
   * @param {{ timeoutMs?: number }} [options]
   */
  request(path, body = {}, options = {}) {
    return etcdRequest(this.port, path, body, { ca: this.#ca?.text, ...options })
  }

  /** The keys that begin like this, in order, without their values. @param {string} prefix @returns {Promise<string[]>} */
  async keys(prefix) {
    const end =
      prefix === ''
        ? '\0'
        : prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1)
    const range = { key: base64(prefix === '' ? '\0' : prefix), range_end: base64(end), keys_only: true }
    const { kvs = [] } = await this.request('/v3/kv/range', range)
    return kvs.map((/** @type {{ key: string }} */ { key }) => Buffer.from(key, 'base64').toString('utf8'))
  }

  /** The numbers of the leases that there are. @returns {Promise<string[]>} */
  async leases() {
    const { leases = [] } = await this.request('/v3/lease/leases')
    return leases.map((/** @type {{ ID: string }} */ { ID }) => ID)
  }

  /** @override */
  async dispose() {
    await super.dispose()
    this.#onDispose()
  }
}

/**
 * Whether the server is the one that was started, and takes writes, which it does only with a leader.
 * @param {number} port
 * @param {string} name
 * @param {string | undefined} ca
 */
async function works(port, name, ca) {
  const options = { ca, timeoutMs: 2_000 }
  const { members = [] } = await etcdRequest(port, '/v3/cluster/member/list', {}, options)
  if (!members.some((/** @type {{ name?: string }} */ member) => member.name === name)) return false
  const key = base64('\0holdfast-ready')
  try {
    await etcdRequest(port, '/v3/kv/put', { key, value: base64('yes') }, options)
    await etcdRequest(port, '/v3/kv/deleterange', { key }, options)
  } catch (error) {
    // After a restart it may ask for a name and a password. It works, and only does not talk to strangers.
    if (!(error instanceof Error) || !error.message.includes('user name is empty')) throw error
  }
  return true
}

/**
 * @param {PeerPorts} peer
 * @param {string} cluster
 * @param {string | null} fixedName
 * @param {EtcdOptions} options
 */
async function startMember(peer, cluster, fixedName, { args = [], tls = false }) {
  const certificate = tls ? await makeCertificate() : undefined
  const nameOf = (/** @type {Place} */ { folder }) => fixedName ?? basename(folder)
  const plan = {
    name: 'etcd',
    program: 'etcd',
    prepare: async (/** @type {Place} */ { folder }) => certificate?.writeTo(folder),
    args: (/** @type {Place} */ place) => {
      const client = `${tls ? 'https' : 'http'}://127.0.0.1:${place.port}`
      const files = certificate?.filesIn(place.folder)
      const own = `http://127.0.0.1:${peer.advertise}`
      const urls = {
        'listen-client-urls': client,
        'advertise-client-urls': client,
        'listen-peer-urls': `http://127.0.0.1:${peer.listen}`,
        'initial-advertise-peer-urls': own,
        'initial-cluster': cluster || `${nameOf(place)}=${own}`,
      }
      const settings = {
        name: nameOf(place),
        'data-dir': join(place.folder, 'data'),
        ...urls,
        // An election then takes half a second. Shorter ones are lost to a machine that is busy.
        'heartbeat-interval': '50',
        'election-timeout': '500',
        'log-level': 'warn',
        logger: 'zap',
      }
      return [
        ...Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]),
        ...(files === undefined ? [] : ['--cert-file', files.certFile, '--key-file', files.keyFile]),
        ...args,
      ]
    },
    ready: (/** @type {Place} */ place) => works(place.port, nameOf(place), certificate?.text),
  }
  return startServer(plan, (_plan, place) => {
    const ca = certificate && { file: certificate.filesIn(place.folder).certFile, text: certificate.text }
    return new EtcdServer(plan, place, ca, () => returnPort(peer.listen))
  })
}

/**
 * Starts one etcd server.
 * @param {EtcdOptions} [options]
 * @returns {Promise<EtcdServer>}
 */
export async function startEtcd(options = {}) {
  requirePrograms(options.tls ? ['etcd', 'openssl'] : ['etcd'])
  const listen = await takePort()
  return startMember({ listen, advertise: listen }, '', null, options)
}

/**
 * @typedef {object} EtcdCluster
 * @property {string} url `etcd://` with the addresses of all members.
 * @property {readonly EtcdServer[]} members
 * @property {() => Promise<EtcdServer>} leader Whom most of the members that answer take for the leader.
 * @property {(from: EtcdServer) => Promise<EtcdServer>} failedOver Waits until another one than this is the leader.
 * @property {(member: EtcdServer) => Promise<void>} isolate Cuts a member off from the others. Clients still reach it.
 * @property {() => void} heal Nobody is cut off any more.
 * @property {() => Promise<void>} settled Waits until all members that run and are not paused take writes.
 * @property {() => Promise<void>} dispose
 */

/**
 * Starts members that elect a leader, and waits until all of them take writes.
 * @param {{ members?: number } & EtcdOptions} [options]
 * @returns {Promise<EtcdCluster>}
 */
export async function startEtcdCluster({ members: count = 3, ...options } = {}) {
  requirePrograms(options.tls ? ['etcd', 'openssl'] : ['etcd'])
  const ports = await Promise.all(Array.from({ length: count }, () => takePort()))
  const relays = await Promise.all(ports.map((port) => new PeerRelay(port).listen()))
  const token = `t${ports.join('-')}`
  const names = ports.map((port) => `member-${port}`)
  const cluster = relays.map(({ port }, index) => `${names[index]}=http://127.0.0.1:${port}`).join(',')
  const tagged = { ...options, args: ['--initial-cluster-token', token, ...(options.args ?? [])] }
  const starts = relays.map((relay, index) =>
    startMember(
      { listen: /** @type {number} */ (ports[index]), advertise: relay.port },
      cluster,
      /** @type {string} */ (names[index]),
      tagged,
    ),
  )
  const members = await startTogether(starts).catch(async (error) => {
    await disposeAll(relays)
    throw error
  })
  return {
    url: `${options.tls ? 'etcds' : 'etcd'}://${addressesOf(members)}`,
    members,
    ...leadership(members),
    isolate: async (member) => {
      const id = BigInt((await statusOf(member)).header.member_id).toString(16)
      relays.forEach((relay, index) => {
        const isOwn = members[index] === member
        relay.cut((from) => isOwn || from === id)
      })
    },
    heal: () => {
      for (const relay of relays) relay.cut(() => false)
    },
    settled: async () => {
      const answering = members.filter((member) => member.answering)
      await until('every member of etcd takes writes', async () => {
        const key = base64('\0holdfast-settled')
        for (const member of answering) await member.request('/v3/kv/put', { key }, { timeoutMs: 2_000 })
        await members[0]?.request('/v3/kv/deleterange', { key }, { timeoutMs: 2_000 })
        return true
      })
    },
    dispose: async () => {
      await disposeAll(members)
      await disposeAll(relays)
    },
  }
}

/** @param {EtcdServer} member */
function statusOf(member) {
  return member.request('/v3/maintenance/status', {}, { timeoutMs: 2_000 })
}

/** @param {readonly EtcdServer[]} members */
function leadership(members) {
  const find = async () => {
    const answering = members.filter((member) => member.answering)
    const settled = await Promise.allSettled(answering.map(statusOf))
    const views = settled.map((each, index) => ({ member: answering[index], status: each }))
    const known = views.flatMap(({ member, status }) =>
      status.status === 'fulfilled'
        ? [{ member, id: status.value.header.member_id, leader: status.value.leader }]
        : [],
    )
    const found = known.find(
      ({ id }) => 2 * known.filter(({ leader }) => leader === id).length > members.length,
    )
    return found?.member
  }
  return {
    leader: () => until('the members of etcd agree on a leader', find),
    failedOver: (/** @type {EtcdServer} */ from) =>
      until(`another member than the one on port ${from.port} leads`, async () => {
        const leader = await find()
        return leader === from ? undefined : leader
      }),
  }
}

const needs = { programs: ['etcd'], extras: ['etcdctl', 'openssl'] }

/** @type {readonly import('./store.js').StoreDefinition[]} */
export const etcdStores = [
  controlledStore('etcd', { ...needs, start: () => startEtcd() }),
  controlledStore('etcd-cluster', { ...needs, start: () => startEtcdCluster() }),
]
