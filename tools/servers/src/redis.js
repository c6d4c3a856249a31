// @ts-check
// One Redis server, or several that know nothing of each other.
import { makeCertificate } from './certificate.js'
import { disposeAll, ServerProcess, startServer, startTogether } from './process.js'
import { requirePrograms } from './programs.js'
import { fieldsOf, ReplyError, redisCommand } from './resp.js'

/** @typedef {import('./process.js').Place} Place */
/** @typedef {import('./process.js').ServerPlan} ServerPlan */
/** @typedef {import('./resp.js').Auth} Auth */
/** @typedef {import('./resp.js').Reply} Reply */

/**
 * @typedef {object} RedisOptions
 * @property {readonly string[] | undefined} [args] More arguments for redis-server, for example
 *   `['--maxmemory', '10mb']`. A password after `--requirepass` is used by `command` and is part of the URL.
 * @property {boolean | undefined} [persist] Whether every write is on the disk before it is answered, so that a
 *   restart keeps it. Without it, nothing is kept.
 * @property {boolean | undefined} [tls] Whether only TLS is spoken, with a certificate signed by itself.
 * @property {Auth | undefined} [auth] Who `command` and the URL log in as; unless given, the password of the server.
 * @property {boolean | undefined} [clock] Whether it has a wall clock of its own, which `stepClock` sets.
 */

/** A Redis server that was started here. */
export class RedisServer extends ServerProcess {
  #auth
  #ca

  /**
   * Use `startRedis`.
   * @param {ServerPlan} plan
   * @param {Place} place
   * @param {{ auth?: Auth | undefined, ca?: { file: string, text: string } | undefined }} [access]
   */
  constructor(plan, place, { auth, ca } = {}) {
    super(plan, place)
    this.#auth = auth
    this.#ca = ca
  }

  get host() {
    return '127.0.0.1'
  }

  get url() {
    const { username = '', password } = this.#auth ?? { password: undefined }
    const login =
      password === undefined ? '' : `${encodeURIComponent(username)}:${encodeURIComponent(password)}@`
    return `${this.#ca === undefined ? 'redis' : 'rediss'}://${login}${this.host}:${this.port}`
  }

  /** The file with the certificate to trust, if the server speaks TLS. */
  get ca() {
    return this.#ca?.file
  }

  /**
   * Sends one command over a connection of its own. Rejects with a ReplyError if the server refuses it.
   * @param {ReadonlyArray<string | number>} args
   * @returns {Promise<Reply>}
   */
  command(...args) {
    return redisCommand(this.port, args, { auth: this.#auth, ca: this.#ca?.text })
  }

  /**
   * The fields of one section of INFO.
   * @param {string} section
   */
  async info(section) {
    return fieldsOf(await this.command('INFO', section))
  }
}

const fillerKeys = 4_096
const fillerBytes = 1_024
// One call makes or removes all of them. Fillers have no expiry, like the data of somebody else.
const fill = `for i = 1, ${fillerKeys} do redis.call('SET', 'filler:' .. i, string.rep('x', ${fillerBytes})) end`
const unfill = `for i = 1, ${fillerKeys} do redis.call('DEL', 'filler:' .. i) end`

/**
 * Puts a server under such a pressure that it drops keys at random, about half of all, whoever they belong to.
 * @param {RedisServer} server
 * @returns {Promise<() => Promise<void>>} Takes the pressure away again, and what made it.
 */
export async function squeezeRedis(server) {
  await server.command('EVAL', fill, 0)
  const { used_memory: used } = await server.info('memory')
  await server.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-random')
  // Keys are dropped at once, and at every write that follows.
  const most = Number(used) - (fillerKeys * fillerBytes) / 2
  await server.command('CONFIG', 'SET', 'maxmemory', Math.max(1, most))
  return async () => {
    await server.command('CONFIG', 'SET', 'maxmemory', 0)
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    await server.command('EVAL', unfill, 0)
  }
}

/**
 * Whether the server that answers on the port is the process that was started, and takes commands. Somebody else's
 * server can have the port for as long as ours has not noticed.
 * @param {number} port
 * @param {number} pid
 * @param {import('./resp.js').CommandOptions} options
 */
async function answers(port, pid, options) {
  try {
    await redisCommand(port, ['PING'], options)
    const { process_id: answering } = fieldsOf(await redisCommand(port, ['INFO', 'server'], options))
    return Number(answering) === pid
  } catch (error) {
    // It works, and only does not talk to strangers.
    if (error instanceof ReplyError && ['NOAUTH', 'WRONGPASS', 'NOPERM'].includes(error.code)) return true
    throw error
  }
}

/**
 * The plan that every kind of Redis server here shares.
 * @param {Omit<ServerPlan, 'program' | 'ready'>} plan
 * @param {{ auth?: Auth | undefined, ca?: string | undefined }} [access]
 * @returns {ServerPlan}
 */
export function redisPlan(plan, access = {}) {
  return {
    ...plan,
    program: 'redis-server',
    ready: ({ port }, pid) => answers(port, pid, { ...access, timeoutMs: 2_000 }),
  }
}

/**
 * The arguments of a server that holds data.
 * @param {Place} place
 * @param {Pick<RedisOptions, 'args' | 'persist'>} options
 */
export function dataArgs({ port, folder }, { args = [], persist = false }) {
  // A replica would wait five seconds for others before the first copy is sent.
  const always = ['--bind', '127.0.0.1', '--dir', folder, '--save', '', '--repl-diskless-sync-delay', '0']
  const kept = persist ? ['--appendonly', 'yes', '--appendfsync', 'always'] : ['--appendonly', 'no']
  return ['--port', String(port), ...always, ...kept, ...args]
}

/** @param {readonly string[]} args @returns {Auth | undefined} */
function authOf(args) {
  const password = args[args.indexOf('--requirepass') + 1]
  return args.includes('--requirepass') && password !== undefined ? { password } : undefined
}

/**
 * Starts one Redis server.
 * @param {RedisOptions} [options]
 * @returns {Promise<RedisServer>}
 */
export async function startRedis({ args = [], persist, tls = false, auth = authOf(args), clock } = {}) {
  requirePrograms(tls ? ['redis-server', 'openssl'] : ['redis-server'])
  const certificate = tls ? await makeCertificate() : undefined
  const plan = redisPlan(
    {
      name: 'redis',
      clock,
      prepare: async ({ folder }) => certificate?.writeTo(folder),
      args: (place) => {
        if (certificate === undefined) return dataArgs(place, { args, persist })
        const { certFile, keyFile } = certificate.filesIn(place.folder)
        const files = ['--tls-cert-file', certFile, '--tls-key-file', keyFile, '--tls-ca-cert-file', certFile]
        const secure = ['--tls-port', String(place.port), ...files, '--tls-auth-clients', 'no']
        return dataArgs({ folder: place.folder, port: 0 }, { args: [...secure, ...args], persist })
      },
    },
    { auth, ca: certificate?.text },
  )
  return startServer(plan, (_plan, place) => {
    const ca = certificate && { file: certificate.filesIn(place.folder).certFile, text: certificate.text }
    return new RedisServer(plan, place, { auth, ca })
  })
}

/**
 * Independent masters, as the Redlock algorithm wants them.
 * @typedef {object} RedisMasters
 * @property {readonly RedisServer[]} servers
 * @property {readonly string[]} urls One URL per server.
 * @property {string} url One URL for all: `redis+redlock://127.0.0.1:1,127.0.0.1:2`.
 * @property {() => Promise<void>} dispose
 */

/**
 * Starts masters that know nothing of each other.
 * @param {number} [count]
 * @param {Pick<RedisOptions, 'args' | 'persist' | 'clock'>} [options]
 * @returns {Promise<RedisMasters>}
 */
export async function startRedisMasters(count = 5, options = {}) {
  requirePrograms(['redis-server'])
  const servers = await startTogether(Array.from({ length: count }, () => startRedis(options)))
  return {
    servers,
    urls: servers.map((server) => server.url),
    url: `redis+redlock://${addressesOf(servers)}`,
    dispose: () => disposeAll(servers),
  }
}

/**
 * The part of an URL that names several servers.
 * @param {ReadonlyArray<{ readonly port: number }>} servers
 */
export function addressesOf(servers) {
  return servers.map(({ port }) => `127.0.0.1:${port}`).join(',')
}
