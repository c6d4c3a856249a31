/**
 * A session with the servers: it outlives connections. When one is lost, the next server is asked to go on with the
 * session; when a server says that it has expired, or none could be asked for as long as it may live, it is over for good.
 */

import type { HostAndPort } from '../../../core/address.js'
import { after, every, jittered, monotonicMs, shuffled } from '../clock.js'
import type { Call, Credential } from './call.js'
import { Connection } from './connection.js'
import { connectionLoss, forRequest, isFinal, ZooKeeperError } from './errors.js'
import type { NodeEventType, Welcome } from './records.js'
import type { TlsSettings } from './socket.js'
import { WatchTable } from './watches.js'

export type SessionState = 'connecting' | 'connected' | 'suspended' | 'expired' | 'closed'

/** What another client needs to go on with a session. The password is a secret. */
export interface SessionKey {
  readonly sessionId: bigint
  readonly password: Buffer
}

export interface SessionSettings {
  readonly hosts: readonly HostAndPort[]
  readonly sessionMs: number
  readonly auth: readonly Credential[]
  readonly tls: TlsSettings | undefined
  readonly connectMs: number
  readonly requestMs: number | null
  readonly frameBytesMax: number
  readonly key: SessionKey | undefined
}

export interface SessionListener {
  state(state: SessionState): void
  event(type: NodeEventType, path: string): void
}

const TICK_MAX_MS = 250
const TICK_MIN_MS = 10
const LATE_TICKS = 4
const PAUSE_MIN_MS = 20
const PAUSE_MAX_MS = 1_000

export class Session {
  readonly watches = new WatchTable()
  readonly #settings: SessionSettings
  readonly #listener: SessionListener
  readonly #hosts: readonly HostAndPort[]
  readonly #auth: Credential[]
  #nextHost = 0
  /** How many attempts in a row led to no answer; a server that welcomes everybody and says nothing more counts too. */
  #fruitless = 0
  #state: SessionState = 'connecting'
  #connection: Connection | null = null
  #sessionId: bigint
  #password: Buffer
  #sessionMs: number
  #lastZxid = 0n
  #heardFromMs = monotonicMs()
  readonly #tickMs: number
  #lastTickMs = monotonicMs()
  #skippedTick = false
  /** Why the session is over. */
  #over: ZooKeeperError | null = null
  #lastTrouble: ZooKeeperError | null = null
  readonly #stopTicking: () => void
  #stopPause: () => void = () => undefined
  #opening: { resolve(): void; reject(error: ZooKeeperError): void } | null = null

  constructor(settings: SessionSettings, listener: SessionListener) {
    this.#settings = settings
    this.#listener = listener
    this.#hosts = shuffled(settings.hosts)
    this.#auth = [...settings.auth]
    this.#sessionId = settings.key?.sessionId ?? 0n
    this.#password = settings.key?.password ?? Buffer.alloc(16)
    this.#sessionMs = settings.sessionMs
    this.#tickMs = Math.min(Math.max(settings.sessionMs / 30, TICK_MIN_MS), TICK_MAX_MS)
    this.#stopTicking = every(this.#tickMs, () => this.#tick())
  }

  get state(): SessionState {
    return this.#state
  }

  get key(): SessionKey {
    return { sessionId: this.#sessionId, password: Buffer.from(this.#password) }
  }

  get sessionMs(): number {
    return this.#sessionMs
  }

  get heardFromMs(): number {
    return this.#heardFromMs
  }

  get serverAddress(): string | null {
    return this.#state === 'connected' ? (this.#connection?.address ?? null) : null
  }

  /** Settles when the first server has welcomed the session, or when none did in time. */
  open(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#opening = { resolve, reject }
      this.#attempt()
    })
  }

  request<T>(call: Call<T>): Promise<T> {
    const connection = this.#connection
    if (this.#over !== null) return Promise.reject(forRequest(this.#over, call.name, call.path, false))
    if (connection === null || !connection.isReady) {
      const trouble = this.#lastTrouble ?? connectionLoss('There is no connection to a server at the moment.')
      const loss = trouble.code === 'CONNECTION_LOSS' ? trouble : connectionLoss(trouble.message, trouble)
      return Promise.reject(forRequest(loss, call.name, call.path, false))
    }
    return connection.request(call)
  }

  /** Adds credentials now and to every connection from here on. */
  async prove(credential: Credential): Promise<void> {
    if (this.#over !== null) throw forRequest(this.#over, 'the credentials', null, false)
    this.#auth.push(credential)
    if (this.#connection?.isReady) await this.#connection.prove(credential)
  }

  /** Ends the session here; what the servers know of it is not touched. */
  finish(state: 'expired' | 'closed', reason: ZooKeeperError): void {
    if (this.#over !== null) return
    this.#over = reason
    this.#stopTicking()
    this.#stopPause()
    const connection = this.#connection
    this.#connection = null
    connection?.end(reason)
    this.#become(state)
    this.#opening?.reject(reason)
    this.#opening = null
  }

  /** Nothing is thrown from here, because a timer may have called it. */
  #attempt(): void {
    if (this.#over !== null) return
    try {
      this.#connect()
    } catch (cause) {
      const text = 'The connection could not be made at all; check `hosts` and `tls`.'
      this.finish('expired', new ZooKeeperError('BAD_ARGUMENTS', text, { cause }))
    }
  }

  #connect(): void {
    const host = this.#hosts[this.#nextHost % this.#hosts.length]
    if (host === undefined) return
    this.#nextHost += 1
    this.#fruitless += 1
    const greeting = {
      lastZxid: this.#lastZxid,
      sessionMs: this.#settings.sessionMs,
      sessionId: this.#sessionId,
      password: this.#password,
    }
    const { tls, connectMs, requestMs, frameBytesMax } = this.#settings
    const keepsAlive = this.#opening !== null
    const connection: Connection = new Connection(
      { host, tls, auth: [...this.#auth], greeting, connectMs, requestMs, frameBytesMax, keepsAlive },
      {
        welcomed: (welcome) => this.#welcomed(welcome),
        ready: () => this.#ready(),
        event: (type, path) => this.#listener.event(type, path),
        heard: (sentAtMs) => this.#heard(sentAtMs, connection),
        sawZxid: (zxid) => {
          if (zxid > this.#lastZxid) this.#lastZxid = zxid
        },
        ended: (reason) => this.#ended(connection, reason),
      },
    )
    this.#connection = connection
  }

  #welcomed(welcome: Welcome): readonly Buffer[] {
    this.#sessionId = welcome.sessionId
    this.#password = welcome.password
    this.#sessionMs = welcome.sessionMs
    return this.watches.frames(this.#lastZxid)
  }

  #ready(): void {
    this.#lastTrouble = null
    this.#become('connected')
    this.#opening?.resolve()
    this.#opening = null
  }

  #heard(sentAtMs: number, connection: Connection): void {
    if (sentAtMs > this.#heardFromMs) this.#heardFromMs = sentAtMs
    if (connection.isReady) this.#fruitless = 0
  }

  #ended(connection: Connection, reason: ZooKeeperError): void {
    if (this.#connection !== connection) return
    this.#connection = null
    this.#lastTrouble = reason
    if (isFinal(reason.code)) {
      this.finish('expired', reason)
      return
    }
    if (this.#state === 'connected') this.#become('suspended')
    if (this.#isTooLate(monotonicMs())) return
    // Every server is asked once without a pause; after that, longer and longer pauses.
    const rounds = Math.floor(this.#fruitless / this.#hosts.length)
    const pauseMaxMs = Math.min(PAUSE_MAX_MS, this.#sessionMs / 10)
    const pauseMs = rounds === 0 ? 0 : Math.min(PAUSE_MIN_MS * 2 ** (rounds - 1), pauseMaxMs)
    this.#stopPause = after(jittered(pauseMs), () => this.#attempt(), this.#opening !== null)
  }

  #tick(): void {
    const now = monotonicMs()
    const late = now - this.#lastTickMs > LATE_TICKS * this.#tickMs
    this.#lastTickMs = now
    // This process stood still. What came in the meantime is read before the server is judged, once.
    this.#skippedTick = late && !this.#skippedTick
    if (this.#state !== 'connected' && this.#isTooLate(now)) return
    if (!this.#skippedTick) this.#connection?.tick(now)
  }

  /** Without a connection, the session is given up when the servers may have given it up. */
  #isTooLate(now: number): boolean {
    if (this.#over !== null) return true
    if (now - this.#heardFromMs < this.#sessionMs) return false
    const trouble = this.#lastTrouble
    const why = trouble === null ? '' : ` ${trouble.message}`
    if (this.#opening !== null) {
      const code = trouble?.code ?? 'CONNECTION_LOSS'
      const text = `No server of ZooKeeper answered within ${this.#sessionMs} ms.${why}`
      this.finish('closed', new ZooKeeperError(code, text, { cause: trouble }))
    } else {
      const text = `No server could be reached for the ${this.#sessionMs} ms that the session lives.${why}`
      this.finish('expired', new ZooKeeperError('SESSION_EXPIRED', text, { wasSent: true, cause: trouble }))
    }
    return true
  }

  #become(state: SessionState): void {
    if (this.#state === state) return
    this.#state = state
    this.#listener.state(state)
  }
}
