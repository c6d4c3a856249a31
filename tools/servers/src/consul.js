// @ts-check
// Consul: one server, or three that elect a leader. All keep their data on the disk, so that a restart finds it again.
import { writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { makeCertificate } from './certificate.js'
import { consulRequest } from './consul-wire.js'
import { controlledStore } from './controlled.js'
import { findConsul } from './locations.js'
import { returnPort, takePort } from './ports.js'
import { disposeAll, ServerProcess, startServer, startTogether } from './process.js'
import { requirePrograms } from './programs.js'
import { addressesOf } from './redis.js'
import { until } from './wait.js'

/** @typedef {import('./process.js').Place} Place */

/**
 * @typedef {object} ConsulOptions
 * @property {readonly string[] | undefined} [args] More arguments for `consul agent`, for example
 *   `['-hcl', 'acl { enabled = true }']`. They win over the settings of this package.
 * @property {string | undefined} [sessionTtlMin] The shortest TTL of a session that the server takes; `1s` unless given,
 *   where Consul's own default is `10s`.
 * @property {string | undefined} [token] The ACL token that `request` and the check that it works use.
 * @property {boolean | undefined} [tls] Whether only TLS is spoken to clients, with a certificate signed by itself.
 */

/** The ports among servers. @typedef {{ readonly rpc: number, readonly serf: number }} PeerPorts */

/**
 * What a server has besides its place.
 * @typedef {object} Access
 * @property {readonly string[]} command
 * @property {string | undefined} token
 * @property {{ readonly file: string, readonly text: string } | undefined} ca
 */

/** A Consul server that was started here. */
export class ConsulServer extends ServerProcess {
  #access
  #onDispose

  /**
   * Use `startConsul`.
   * @param {import('./process.js').ServerPlan} plan
   * @param {Place} place
   * @param {Access} access
   * @param {() => void} onDispose
   */
  constructor(plan, place, access, onDispose) {
    super(plan, place)
    this.#access = access
    this.#onDispose = onDispose
  }

  get host() {
    return '127.0.0.1'
  }

  get url() {
    return `${this.#access.ca === undefined ? 'consul' : 'consuls'}://${this.host}:${this.port}`
  }

  /** The file with the certificate to trust, if the server speaks TLS. */
  get ca() {
    return this.#access.ca?.file
  }

  /** What runs the program `consul`, for its command `consul lock`. */
  get command() {
    return this.#access.command
  }

  /**
   * Sends one request over a connection of its own.
   * @param {string} method
   * @param {string} path From `/v1` on.
   * @param {import('./consul-wire.js').ConsulRequestOptions} [options]
   */
  request(method, path, options = {}) {
    const { token, ca } = this.#access
    return consulRequest(this.port, method, path, { token, ca: ca?.text, ...options })
  }

  /** @override */
  async dispose() {
    await super.dispose()
    this.#onDispose()
  }
}

async function takePeerPorts() {
  const [rpc, serf] = await Promise.all([takePort(), takePort()])
  return { rpc, serf }
}

/** @param {PeerPorts} ports */
function returnPeerPorts({ rpc, serf }) {
  returnPort(rpc)
  returnPort(serf)
}

/** The shortest that the servers take: what is made to try them must not outlive a test. */
const SESSION_TTL_MIN = '1s'

/**
 * @param {Place} place
 * @param {PeerPorts} own
 * @param {readonly PeerPorts[]} all
 * @param {Pick<ConsulOptions, 'sessionTtlMin'>} options
 * @param {{ readonly certFile: string, readonly keyFile: string } | undefined} certificate
 */
function configOf({ port, folder }, own, all, { sessionTtlMin = SESSION_TTL_MIN }, certificate) {
  const client = certificate === undefined ? { http: port, https: -1 } : { http: -1, https: port }
  return {
    server: true,
    bootstrap_expect: all.length,
    retry_join: all.filter((each) => each !== own).map(({ serf }) => `127.0.0.1:${serf}`),
    retry_interval: '1s',
    data_dir: join(folder, 'data'),
    // It tells whose server answers on the port.
    node_name: basename(folder),
    bind_addr: '127.0.0.1',
    client_addr: '127.0.0.1',
    ports: { ...client, dns: -1, grpc: -1, server: own.rpc, serf_lan: own.serf, serf_wan: -1 },
    // An election then takes about a second.
    performance: { raft_multiplier: 1 },
    session_ttl_min: sessionTtlMin,
    limits: { http_max_conns_per_client: 2_000 },
    // Nothing is asked of the outside.
    disable_update_check: true,
    log_level: 'warn',
    // A server that is stopped is to come back, and not to leave the others for good.
    leave_on_terminate: false,
    ...(certificate === undefined ? {} : { cert_file: certificate.certFile, key_file: certificate.keyFile }),
  }
}

/**
 * Whether the agent is the one that was started.
 * @param {import('./consul-wire.js').ConsulAnswer} answer
 * @param {string} folder
 */
function isNode({ status, text }, folder) {
  return status === 200 && JSON.parse(text).Config.NodeName === basename(folder)
}

/**
 * Only a server that has a leader makes a session. One whose answer never came, or that could not be ended, ends by itself.
 * @param {(method: string, path: string, body?: string) => Promise<import('./consul-wire.js').ConsulAnswer>} ask
 * @param {string} [ttl]
 */
async function makesSessions(ask, ttl = SESSION_TTL_MIN) {
  const { status, text } = await ask('PUT', '/v1/session/create', JSON.stringify({ TTL: ttl }))
  if (status !== 200) return false
  await ask('PUT', `/v1/session/destroy/${JSON.parse(text).ID}`)
  return true
}

/**
 * @param {ConsulOptions} options
 * @param {{ own: PeerPorts, all: readonly PeerPorts[] } | undefined} peers Undefined for one that is alone.
 * @returns {Promise<ConsulServer>}
 */
async function startAgent({ args = [], token, tls = false, ...rest }, peers) {
  requirePrograms(tls ? ['consul', 'openssl'] : ['consul'])
  const { command } = /** @type {import('./locations.js').FoundProgram} */ (findConsul())
  const [program = '', ...before] = command
  const certificate = tls ? await makeCertificate() : undefined
  /** Whoever is alone takes others if these turn out to be somebody else's. @type {PeerPorts | undefined} */
  let own
  return startServer(
    {
      name: 'consul',
      program,
      args: ({ folder }) => [...before, 'agent', '-config-file', join(folder, 'consul.json'), ...args],
      prepare: async (place) => {
        own = peers?.own ?? (await takePeerPorts())
        await certificate?.writeTo(place.folder)
        const files = certificate?.filesIn(place.folder)
        const config = configOf(place, own, peers?.all ?? [own], rest, files)
        await writeFile(join(place.folder, 'consul.json'), JSON.stringify(config))
      },
      ready: async ({ port, folder }) => {
        /** @type {(method: string, path: string, body?: string) => Promise<import('./consul-wire.js').ConsulAnswer>} */
        const ask = (method, path, body) =>
          consulRequest(port, method, path, { body, token, ca: certificate?.text, timeoutMs: 2_000 })
        if (!isNode(await ask('GET', '/v1/agent/self'), folder)) return false
        // One of several has no leader before the others are there.
        return peers !== undefined || makesSessions(ask, rest.sessionTtlMin)
      },
    },
    (plan, place) => {
      const ca = certificate && { file: certificate.filesIn(place.folder).certFile, text: certificate.text }
      return new ConsulServer(plan, place, { command, token, ca }, () => {
        if (own !== undefined) returnPeerPorts(own)
        own = undefined
      })
    },
  )
}

/**
 * Starts one Consul server that is its own leader.
 * @param {ConsulOptions} [options]
 * @returns {Promise<ConsulServer>}
 */
export async function startConsul(options = {}) {
  return startAgent(options, undefined)
}

/**
 * @typedef {object} ConsulCluster
 * @property {string} url `consul://` with the addresses of all servers.
 * @property {readonly ConsulServer[]} servers
 * @property {() => Promise<ConsulServer>} leader The one that leads, as the servers say that answer.
 * @property {(from: ConsulServer) => Promise<ConsulServer>} failedOver Waits until another server leads.
 * @property {() => Promise<void>} settled Waits until every server that runs and is not paused can write.
 * @property {() => Promise<void>} dispose
 */

/**
 * Starts servers that elect a leader among themselves.
 * @param {Omit<ConsulOptions, 'tls'> & { servers?: number }} [options]
 * @returns {Promise<ConsulCluster>}
 */
export async function startConsulCluster({ servers: count = 3, ...options } = {}) {
  requirePrograms(['consul'])
  const all = await Promise.all(Array.from({ length: count }, () => takePeerPorts()))
  const servers = await startTogether(all.map((own) => startAgent(options, { own, all })))
  const leaderNow = async () => {
    for (const server of servers.filter(({ answering }) => answering)) {
      const { status, text } = await server.request('GET', '/v1/status/leader', { timeoutMs: 2_000 })
      const rpc = status === 200 ? Number(JSON.parse(text).split(':')[1]) : Number.NaN
      const leader = servers[all.findIndex((each) => each.rpc === rpc)]
      // A server that has not noticed yet names one that is gone.
      if (leader?.answering) return leader
    }
    return undefined
  }
  const settled = async () => {
    await until('every server of the cluster can write', async () => {
      const answering = servers.filter((server) => server.answering)
      const asked = answering.map((server) =>
        makesSessions(
          (method, path, body) => server.request(method, path, { body, timeoutMs: 3_000 }),
          options.sessionTtlMin,
        ),
      )
      return (await Promise.all(asked)).every(Boolean)
    })
  }
  try {
    await settled()
  } catch (error) {
    await disposeAll(servers)
    throw error
  }
  return {
    url: `consul://${addressesOf(servers)}`,
    servers,
    leader: () => until('a server of the cluster leads', leaderNow),
    failedOver: (from) =>
      until(`another server than the one on port ${from.port} leads`, async () => {
        const leader = await leaderNow()
        return leader === from ? undefined : leader
      }),
    settled,
    dispose: () => disposeAll(servers),
  }
}

const needs = { programs: ['consul'], extras: ['openssl'] }

/** @type {readonly import('./store.js').StoreDefinition[]} */
export const consulStores = [
  controlledStore('consul', { ...needs, start: () => startConsul() }),
  controlledStore('consul-cluster', { ...needs, start: () => startConsulCluster() }),
]
