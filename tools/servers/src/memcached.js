// @ts-check
// One memcached server. It keeps nothing: a restart forgets everything, and its counter of changes begins again.
import { connect } from 'node:net'
import { makeCertificate } from './certificate.js'
import { controlledStore } from './controlled.js'
import { ServerProcess, startServer } from './process.js'
import { requirePrograms } from './programs.js'
import { until } from './wait.js'

/** @typedef {import('./process.js').Place} Place */
/** @typedef {import('./process.js').ServerPlan} ServerPlan */

/**
 * @typedef {object} MemcachedOptions
 * @property {number | undefined} [memoryMb] What it may keep; 64 unless given. With 2, a few tens of thousands of small
 *   items drive each other out.
 * @property {readonly string[] | undefined} [args] More arguments, for example `['-M']`.
 * @property {boolean | undefined} [tls] Whether only TLS is spoken, with a certificate signed by itself.
 * @property {boolean | undefined} [clock] Whether it has a wall clock of its own, which `stepClock` sets. Its leases do not
 *   go by it.
 */

const answerMs = 5_000
const endOfList = /(?:^|\r\n)(?:END|RESET|OK)\r\n$/
const endOfLine = /\r\n$/

/**
 * Sends text over a connection of its own, and gives what comes back until it ends as given.
 * @param {number} port
 * @param {string} text
 * @param {RegExp} [end]
 * @param {{ timeoutMs?: number }} [options]
 * @returns {Promise<string>}
 */
export function memcachedCommand(port, text, end = endOfLine, { timeoutMs = answerMs } = {}) {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true })
    let answer = ''
    const timer = setTimeout(() => {
      finish(new Error(`memcached on port ${port} did not answer within ${timeoutMs} ms.`))
    }, timeoutMs)
    const finish = (/** @type {Error | undefined} */ error) => {
      clearTimeout(timer)
      socket.destroy()
      if (error === undefined) resolve(answer)
      else reject(error)
    }
    socket.on('error', finish)
    socket.on('close', () => finish(new Error(`memcached on port ${port} closed the connection unasked.`)))
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1')
      if (end.test(answer) || /^(?:ERROR|CLIENT_ERROR|SERVER_ERROR).*\r\n$/.test(answer)) finish(undefined)
    })
    socket.write(`${text}\r\n`, 'latin1')
  })
}

/** A memcached server that was started here. */
export class MemcachedServer extends ServerProcess {
  #ca

  /**
   * Use `startMemcached`.
   * @param {ServerPlan} plan
   * @param {Place} place
   * @param {string} [ca]
   */
  constructor(plan, place, ca) {
    super(plan, place)
    this.#ca = ca
  }

  get host() {
    return '127.0.0.1'
  }

  get url() {
    return `${this.#ca === undefined ? 'memcached' : 'memcacheds'}://${this.host}:${this.port}`
  }

  /** The file with the certificate to trust, if the server speaks TLS. */
  get ca() {
    return this.#ca
  }

  /**
   * Sends one command that is answered by one line, over a connection of its own.
   * @param {string} text
   */
  async command(text) {
    return (await memcachedCommand(this.port, text)).trimEnd()
  }

  /**
   * The numbers that the server tells about itself, or one group of them.
   * @param {string} [group]
   * @returns {Promise<Record<string, string>>}
   */
  async stats(group = '') {
    const text = await memcachedCommand(this.port, `stats ${group}`.trimEnd(), endOfList)
    return Object.fromEntries(
      [...text.matchAll(/^STAT (\S+) (.*)\r$/gm)].map(([, name, value]) => [name, value]),
    )
  }

  async flushAll() {
    const answer = await this.command('flush_all')
    if (answer !== 'OK') throw new Error(`memcached did not flush: ${answer}`)
  }
}

// Items of about the same size share pages of a megabyte, and drive out only each other; a lock can be of any of these
// sizes. Every item costs about this much beside its value.
const chunkSizes = [96, 120, 152, 192, 240, 304, 384, 480, 600, 752, 944]
const overhead = 80
const fillerBytes = 2_000_000
const evictionsMin = 1_000

/**
 * Writes items until the server has dropped others for them, whoever they belong to. They end by themselves.
 * @param {MemcachedServer} server Has little memory: `memoryMb: 2`.
 */
export async function squeezeMemcached(server) {
  const before = Number((await server.stats()).evictions)
  await until('memcached drops items', async () => {
    for (const chunk of chunkSizes) {
      const size = Math.max(1, chunk - overhead)
      const sets = Array.from({ length: Math.ceil(fillerBytes / chunk) }, (_, index) => {
        return `set filler:${size}:${index} 0 2 ${size} noreply\r\n${'x'.repeat(size)}\r\n`
      })
      await memcachedCommand(server.port, `${sets.join('')}version`)
    }
    return Number((await server.stats()).evictions) >= before + evictionsMin
  })
}

/** @param {number} port @param {number} pid */
async function answers(port, pid) {
  const text = await memcachedCommand(port, 'stats', endOfList, { timeoutMs: 2_000 })
  // It works, and only does not talk to strangers.
  if (text.startsWith('CLIENT_ERROR unauthenticated')) return true
  if (!text.includes(`STAT pid ${pid}\r\n`)) return false
  const stored = await memcachedCommand(port, 'ms holdfast-ready 1 T1\r\nx')
  return stored === 'HD\r\n'
}

/** @param {number} port */
function accepts(port) {
  return new Promise((/** @type {(yes: boolean) => void} */ resolve) => {
    const socket = connect({ host: '127.0.0.1', port })
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
    socket.once('close', () => socket.destroy())
    setTimeout(() => socket.destroy(), 1_000).unref()
  })
}

/**
 * Starts one memcached server.
 * @param {MemcachedOptions} [options]
 * @returns {Promise<MemcachedServer>}
 */
export async function startMemcached({ memoryMb = 64, args = [], tls = false, clock } = {}) {
  requirePrograms(tls ? ['memcached', 'openssl'] : ['memcached'])
  const certificate = tls ? await makeCertificate() : undefined
  const plan = {
    name: 'memcached',
    program: 'memcached',
    clock,
    prepare: async (/** @type {Place} */ { folder }) => certificate?.writeTo(folder),
    args: (/** @type {Place} */ { port, folder }) => {
      const files = certificate?.filesIn(folder)
      const secure =
        files === undefined ? [] : ['-Z', '-o', `ssl_chain_cert=${files.certFile},ssl_key=${files.keyFile}`]
      // It refuses to run as root. With certificates it must be able to read them, so it stays who it is.
      const user = process.getuid?.() === 0 ? ['-u', tls ? 'root' : 'nobody'] : []
      const where = ['-l', '127.0.0.1', '-p', String(port), '-U', '0']
      return [...user, ...where, '-m', String(memoryMb), ...secure, ...args]
    },
    ready: (/** @type {Place} */ { port }, /** @type {number} */ pid) =>
      tls ? accepts(port) : answers(port, pid),
  }
  return startServer(plan, (_plan, place) => {
    return new MemcachedServer(plan, place, certificate?.filesIn(place.folder).certFile)
  })
}

export const memcached = controlledStore('memcached', {
  programs: ['memcached'],
  extras: ['openssl'],
  start: startMemcached,
})
