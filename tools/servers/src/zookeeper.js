// @ts-check
// One ZooKeeper server, as a process of Java.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeCertificate } from './certificate.js'
import { archiveArgs, makeArchive } from './class-archive.js'
import { javaFolder } from './locations.js'
import { ServerProcess, startServer } from './process.js'
import { missingPrograms, requirePrograms } from './programs.js'
import { zookeeperSession, zookeeperWord } from './zookeeper-wire.js'

/** @typedef {import('./process.js').Place} Place */
/** @typedef {import('./process.js').ServerPlan} ServerPlan */

/**
 * @typedef {object} ZookeeperOptions
 * @property {number | undefined} [tickTime] The unit of the server's time in milliseconds; 500 unless given. Sessions
 *   are looked at once in so long.
 * @property {number | undefined} [syncLimit] After how many ticks of silence servers give each other up; 10 unless given. So
 *   long it takes until a leader that hangs is replaced.
 * @property {number | undefined} [initLimit] How many ticks a new leader waits for the others to follow it; 20 unless given.
 * @property {number | undefined} [minSessionMs] The shortest session that is given; 1000 unless given.
 * @property {number | undefined} [maxSessionMs] The longest; a minute unless given.
 * @property {readonly string[] | undefined} [settings] More lines for `zoo.cfg`, such as `preAllocSize=64`
 * @property {readonly string[] | undefined} [args] More arguments for Java, such as `-Dznode.container.checkIntervalMs=500`.
 * @property {boolean | undefined} [sync] Whether every change is on the disk before it is answered. A killed server keeps
 *   its data without it, only a killed machine does not.
 * @property {boolean | 'client certificates' | undefined} [tls] Whether the port speaks TLS only, with a certificate that is signed
 *   by itself, and whether a client has to show that certificate too.
 * @property {boolean | undefined} [demandsAuth] Whether every client has to send credentials of the scheme `digest`
 *   before anything else.
 */

// What the manifest of the jar leaves out: Netty is needed for TLS, and some logger has to be there.
const jars = [
  'zookeeper',
  'slf4j-simple',
  'netty-codec',
  'netty-resolver',
  'netty-transport-native-unix-common',
  'commons-lang3',
]
const main = 'org.apache.zookeeper.server.quorum.QuorumPeerMain'
export const zookeeperPrograms = ['java', 'zookeeper.jar', 'commons-lang3.jar']

/** A ZooKeeper server that was started here. */
export class ZookeeperServer extends ServerProcess {
  #ca

  /**
   * Use `startZookeeper`.
   * @param {ServerPlan} plan
   * @param {Place} place
   * @param {{ file: string, text: string, keyFile: string }} [ca]
   */
  constructor(plan, place, ca) {
    super(plan, place)
    this.#ca = ca
  }

  get host() {
    return '127.0.0.1'
  }

  get url() {
    return `${this.#ca === undefined ? 'zookeeper' : 'zookeepers'}://${this.host}:${this.port}`
  }

  /** The file with the certificate to trust, if the server speaks TLS. */
  get ca() {
    return this.#ca?.file
  }

  /** The file with the key to that certificate, for a client that has to show it. */
  get key() {
    return this.#ca?.keyFile
  }

  /** The port for plain text: beside the one for TLS, or the same. */
  get plainPort() {
    return this.#ca === undefined ? this.port : this.port + 1
  }

  /**
   * Sends one of the words of four letters, such as `srvr` or `dump`.
   * @param {string} word
   */
  word(word) {
    return zookeeperWord(this.plainPort, word, { timeoutMs: 2_000 })
  }

  /**
   * What the server takes itself for: `standalone`, `leader` or `follower`; undefined if it serves nobody.
   * @returns {Promise<string | undefined>}
   */
  async mode() {
    return /^Mode: (\w+)$/m.exec(await this.word('srvr'))?.[1]
  }

  /** Opens a session on this server and closes it, which takes two changes that most servers agree upon. */
  probe() {
    return zookeeperSession(this.plainPort, { timeoutMs: 2_000 })
  }
}

/**
 * The lines of `zoo.cfg` that all servers share.
 * @param {Place} place
 * @param {ZookeeperOptions} options
 * @returns {string[]}
 */
export function commonSettings(
  { folder },
  {
    tickTime = 500,
    initLimit = 20,
    syncLimit = 10,
    minSessionMs = 1_000,
    maxSessionMs = 60_000,
    sync = false,
    settings = [],
  },
) {
  return [
    `tickTime=${tickTime}`,
    `initLimit=${initLimit}`,
    `syncLimit=${syncLimit}`,
    `dataDir=${join(folder, 'data')}`,
    'clientPortAddress=127.0.0.1',
    'admin.enableServer=false',
    '4lw.commands.whitelist=*',
    `minSessionTimeout=${minSessionMs}`,
    `maxSessionTimeout=${maxSessionMs}`,
    'maxClientCnxns=0',
    ...(sync ? [] : ['forceSync=no']),
    ...settings,
  ]
}

/**
 * @param {Place} place
 * @param {readonly string[]} args
 * @returns {string[]}
 */
export function javaArgs({ folder }, args) {
  const files = jars.map((name) => join(javaFolder, `${name}.jar`))
  const archive = args.some((each) => each.startsWith('-XX:ArchiveClassesAtExit')) ? [] : archiveArgs(files)
  // Less memory and less compiling than a server of its own would want: tests start many of them.
  const small = ['-Xmx256m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-XX:+PerfDisableSharedMem']
  const logging = '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn'
  return [...small, ...archive, logging, ...args, '-cp', files.join(':'), main, join(folder, 'zoo.cfg')]
}

/**
 * @param {Place} place
 * @param {readonly string[]} lines
 */
export async function writeSettings({ folder }, lines) {
  await mkdir(join(folder, 'data'), { recursive: true })
  await writeFile(join(folder, 'zoo.cfg'), `${lines.join('\n')}\n`)
}

/**
 * Whether the server that answers is the one of this folder. Somebody else's server can have the port for as long as
 * ours has not noticed.
 * @param {number} plainPort
 * @param {Place} place
 */
export async function isOurs(plainPort, { folder }) {
  return (await zookeeperWord(plainPort, 'conf', { timeoutMs: 2_000 })).includes(folder)
}

/**
 * Starts one ZooKeeper server that knows of no other.
 * @param {ZookeeperOptions} [options]
 * @returns {Promise<ZookeeperServer>}
 */
export async function startZookeeper(options = {}) {
  const { args = [], tls = false, demandsAuth = false, settings = [] } = options
  requirePrograms(tls ? [...zookeeperPrograms, 'openssl'] : zookeeperPrograms)
  const certificate = tls ? await makeCertificate() : undefined
  const auth = demandsAuth ? ['enforce.auth.enabled=true', 'enforce.auth.schemes=digest'] : []
  /** @param {Place} place */
  const ports = ({ port, folder }) => {
    if (certificate === undefined) return [`clientPort=${port}`]
    const store = join(folder, 'store.pem')
    return [
      `clientPort=${port + 1}`,
      `secureClientPort=${port}`,
      'secureClientPortAddress=127.0.0.1',
      'serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory',
      `ssl.keyStore.location=${store}`,
      `ssl.trustStore.location=${certificate.filesIn(folder).certFile}`,
      `ssl.clientAuth=${tls === 'client certificates' ? 'need' : 'none'}`,
    ]
  }
  const plan = {
    name: 'zookeeper',
    program: 'java',
    ...(certificate === undefined ? {} : { companion: 1 }),
    prepare: async (/** @type {Place} */ place) => {
      await writeSettings(place, [
        ...commonSettings(place, { ...options, settings: [...ports(place), ...auth, ...settings] }),
      ])
      await certificate?.writeTo(place.folder)
      await certificate?.writeStore(join(place.folder, 'store.pem'))
    },
    args: (/** @type {Place} */ place) => javaArgs(place, args),
    ready: async (/** @type {Place} */ place) => {
      const plainPort = certificate === undefined ? place.port : place.port + 1
      if (!(await isOurs(plainPort, place))) return false
      // A server that wants to know who asks gives a session and then nothing more.
      if (!demandsAuth) await zookeeperSession(plainPort, { timeoutMs: 2_000 })
      return true
    },
  }
  return startServer(plan, (_plan, place) => {
    const files = certificate?.filesIn(place.folder)
    const ca = certificate &&
      files && { file: files.certFile, keyFile: files.keyFile, text: certificate.text }
    return new ZookeeperServer(plan, place, ca)
  })
}

/** Makes starts of ZooKeeper cheaper on this machine, if it can be started at all. */
export async function prepareZookeeper() {
  if (missingPrograms(zookeeperPrograms).length > 0) return
  const files = jars.map((name) => join(javaFolder, `${name}.jar`))
  await makeArchive(files, (args) => startZookeeper({ args }))
}
