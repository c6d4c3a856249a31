/** Our own client of the meta protocol: one server, one connection that is opened when it is needed, and again. */

import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { ClosedError } from '../../core/errors.js'
import { monotonicMs, within } from '../shared/clock.js'
import { Connection } from './connection.js'
import {
  notReached,
  otherConnection,
  refusal,
  strangeAnswer,
  tooOld,
  unanswered,
  withoutCas,
} from './errors.js'
import { type Answer, type Expect, isFailure, statsIn } from './wire.js'

export interface MemcachedAddress {
  readonly host: string
  readonly port: number
  readonly username?: string | undefined
  readonly password?: string | undefined
  /** Whether to speak TLS. */
  readonly tls?: boolean | undefined
  /** The certificate to trust; the system's unless given. */
  readonly ca?: string | undefined
}

export interface ClientOptions {
  /** How long the server may take to answer. */
  readonly requestMs: number
}

/** What the server said of itself when the connection was made. */
export interface Greeting {
  readonly version: string
  readonly settings: ReadonlyMap<string, string>
}

const CONNECT_MS = 5_000
const BACKOFF_MS = 50
const BACKOFF_MS_MAX = 1_000

interface Opened {
  readonly connection: Connection
  readonly greeting: Greeting
}

export class MemcachedClient {
  readonly address: MemcachedAddress
  readonly #options: ClientOptions
  #opened: Opened | null = null
  #opening: Promise<Opened> | null = null
  #generation = 0
  #isClosed = false
  /** After a failure, nobody tries again before this. */
  #restUntil = 0
  #failures = 0
  #lastFailure: Error | null = null

  constructor(address: MemcachedAddress, options: ClientOptions) {
    this.address = address
    this.#options = options
  }

  /**
   * A number that is another one for each connection; 0 while there is none. As long as it stays the same, it is the same
   * process of the server that answers, so a number of a change means the same change.
   */
  get generation(): number {
    return this.#opened === null ? 0 : this.#generation
  }

  async greet(): Promise<Greeting> {
    return (await this.#open()).greeting
  }

  /** Sends a command, and opens the connection for it where there is none. */
  request(text: string, expect: Expect): Promise<Answer> {
    if (this.#opened !== null) return this.#opened.connection.send(text, expect)
    return this.#open().then(({ connection }) => connection.send(text, expect))
  }

  /** Sends a command only if the connection is still the one that is meant. */
  requestOn(generation: number, text: string, expect: Expect): Promise<Answer> {
    if (this.#opened === null || generation !== this.#generation) return Promise.reject(otherConnection())
    return this.#opened.connection.send(text, expect)
  }

  /** A further connection, for answers that take long. Whoever asks for it has to end it. */
  async another(): Promise<Socket> {
    // Whether the server can be used at all is known from the other one.
    await this.#open()
    const socket = await this.#connect()
    const login = this.#loginText()
    if (login !== null) await answerOf(socket, login)
    return socket
  }

  close(): void {
    this.#isClosed = true
    const opened = this.#opened
    this.#opened = null
    opened?.connection.close()
  }

  #open(): Promise<Opened> {
    if (this.#isClosed) return Promise.reject(new ClosedError({ backend: 'memcached' }))
    if (this.#opened !== null) return Promise.resolve(this.#opened)
    if (this.#opening !== null) return this.#opening
    if (monotonicMs() < this.#restUntil) return Promise.reject(this.#lastFailure as Error)
    const opening = this.#openNow().finally(() => {
      this.#opening = null
    })
    this.#opening = opening
    return opening
  }

  async #openNow(): Promise<Opened> {
    try {
      const opened = await this.#handshake()
      if (this.#isClosed) {
        opened.connection.close()
        throw new ClosedError({ backend: 'memcached' })
      }
      this.#failures = 0
      this.#generation += 1
      this.#opened = opened
      return opened
    } catch (error) {
      // Without this, everybody who waits would try to connect all the time.
      const backoffMs = Math.min(BACKOFF_MS * 2 ** Math.min(this.#failures, 10), BACKOFF_MS_MAX)
      this.#restUntil = monotonicMs() + backoffMs
      this.#failures += 1
      this.#lastFailure = error as Error
      throw error
    }
  }

  async #handshake(): Promise<Opened> {
    const socket = await this.#connect()
    const connection = new Connection(socket, this.#options.requestMs, () => {
      if (this.#opened?.connection === connection) this.#opened = null
    })
    try {
      const greeting = await this.#greetOn(connection)
      return { connection, greeting }
    } catch (error) {
      connection.close()
      throw error
    }
  }

  async #greetOn(connection: Connection): Promise<Greeting> {
    // One after the other: a server that wants a password answers nothing but the first of several commands.
    const login = await this.#login(connection)
    if (login !== null && login !== 'STORED') throw refusal(login)
    const told = await connection.send('version\r\n', 'line')
    const said = told.kind === 'line' ? told.text : ''
    if (isFailure(said)) throw refusal(said)
    const [noop, settings] = await Promise.all([
      connection.send('mn\r\n', 'line'),
      connection.send('stats settings\r\n', 'list'),
    ])
    const version = said.replace(/^VERSION /, '')
    if (noop.kind !== 'line' || noop.text !== 'MN' || !isNewEnough(version)) throw tooOld(said)
    if (settings.kind !== 'list') throw strangeAnswer(settings.kind === 'line' ? settings.text : '')
    const stats = statsIn(settings.lines)
    if (stats.get('cas_enabled') === 'no') throw withoutCas()
    return { version, settings: stats }
  }

  /** With `-Y`, the first command must be a `set` of any key with the user's name and password. */
  #loginText(): string | null {
    const { username, password } = this.address
    if (username === undefined && password === undefined) return null
    const text = Buffer.from(`${username ?? ''} ${password ?? ''}`).toString('latin1')
    return `set holdfast 0 0 ${text.length}\r\n${text}\r\n`
  }

  async #login(connection: Connection): Promise<string | null> {
    const text = this.#loginText()
    if (text === null) return null
    const answer = await connection.send(text, 'line')
    return answer.kind === 'line' ? answer.text : ''
  }

  /** A socket that is connected, and has said nothing yet. */
  async #connect(): Promise<Socket> {
    const { host, port, tls, ca } = this.address
    const where = `${host}:${port}`
    const socket =
      tls === true
        ? connectTls({ host, port, ...(ca === undefined ? {} : { ca }), servername: nameFor(host) })
        : connectTcp({ host, port })
    socket.setNoDelay(true)
    socket.setKeepAlive(true, 30_000)
    const connected = new Promise<Socket>((resolve, reject) => {
      socket.once(tls === true ? 'secureConnect' : 'connect', () => resolve(socket))
      socket.once('error', (error) => reject(notReached(where, error)))
      socket.once('close', () => reject(notReached(where, null)))
    })
    try {
      return await within(CONNECT_MS, connected, () => notReached(where, null))
    } catch (error) {
      socket.destroy()
      throw error
    }
  }
}

/** What comes back at once; the connection was good for it a moment ago, so it need not be looked at. */
function answerOf(socket: Socket, text: string): Promise<void> {
  const answered = new Promise<void>((resolve, reject) => {
    socket.once('data', () => resolve())
    socket.once('close', () => reject(unanswered(null)))
    socket.write(text, 'latin1')
  })
  return within(CONNECT_MS, answered, () => unanswered(null))
}

/** The first with the meta commands as they are now. */
const OLDEST = [1, 6, 10] as const

export function isNewEnough(version: string): boolean {
  const found = /^(\d+)\.(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number)
  // A server that calls itself something else has answered a meta command, which must do.
  if (found === undefined) return true
  for (const [index, oldest] of OLDEST.entries()) {
    const part = found[index] as number
    if (part !== oldest) return part > oldest
  }
  return true
}

/** A name is told to the server; a number must not be. */
function nameFor(host: string): string {
  return /^[\d.]+$|:/.test(host) ? '' : host
}
