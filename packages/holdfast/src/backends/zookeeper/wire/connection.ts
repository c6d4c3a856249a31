/**
 * One connection to one server: the greeting, the credentials, then requests in the order of the calls, answered in the
 * same order. It ends once, with a reason, and every request that was not answered is told so.
 */

import type { Socket } from 'node:net'
import type { HostAndPort } from '../../../core/address.js'
import { monotonicMs } from '../clock.js'
import { type Call, type Credential, frameOf } from './call.js'
import {
  codeOf,
  connectionLoss,
  expired,
  forRequest,
  garbage,
  isFinal,
  refusal,
  ZooKeeperError,
} from './errors.js'
import { FrameReader } from './frames.js'
import { JuteReader } from './jute.js'
import {
  authFrame,
  type Greeting,
  greetingFrame,
  type NodeEventType,
  pingFrame,
  readEvent,
  readWelcome,
  type Welcome,
  XID,
} from './records.js'
import { addressText, openSocket, type TlsSettings } from './socket.js'

export interface ConnectionSettings {
  readonly host: HostAndPort
  readonly tls: TlsSettings | undefined
  readonly auth: readonly Credential[]
  readonly greeting: Greeting
  readonly connectMs: number
  /** How long a request may go unanswered; null: for as long as the server answers others. */
  readonly requestMs: number | null
  readonly frameBytesMax: number
  /** Whether somebody waits for the connection itself, so that the process has to live on for it. */
  readonly keepsAlive: boolean
}

/** What the session wants to know. `ended` is the last call. */
export interface ConnectionEvents {
  /** The server has the session. Gives what is to be sent before any request. */
  welcomed(welcome: Welcome): readonly Buffer[]
  /** Requests may be sent from here on. */
  ready(): void
  event(type: NodeEventType, path: string): void
  /** An answer came to what was sent at this moment. */
  heard(sentAtMs: number): void
  sawZxid(zxid: bigint): void
  ended(reason: ZooKeeperError): void
}

interface Pending {
  readonly xid: number
  readonly name: string
  readonly path: string | null
  readonly sentAtMs: number
  settle(code: number, reader: JuteReader): void
  reject(error: ZooKeeperError): void
}

const XID_MAX = 2_147_483_647
const WELCOME_BYTES_MAX = 4_096

export class Connection {
  readonly address: string
  readonly #settings: ConnectionSettings
  readonly #events: ConnectionEvents
  readonly #socket: Socket
  readonly #frames = new FrameReader(WELCOME_BYTES_MAX)
  #stage: 'greeting' | 'proving' | 'ready' | 'ended' = 'greeting'
  #welcome: Welcome | null = null
  /** The oldest first; those before `#first` are answered already. */
  #pending: Pending[] = []
  #first = 0
  #lastXid = 0
  readonly #proofs: Array<{ resolve(): void; reject(error: ZooKeeperError): void }> = []
  readonly #startedAtMs = monotonicMs()
  #greetedAtMs = 0
  #sentAtMs = 0
  #pingAtMs: number | null = null
  /** When the last answer came. Events do not count, because a server that only sends events is of no use. */
  #answeredAtMs = 0
  #corked = false

  constructor(settings: ConnectionSettings, events: ConnectionEvents) {
    this.#settings = settings
    this.#events = events
    this.address = addressText(settings.host)
    this.#socket = openSocket(settings.host, settings.tls, () => this.#greet())
    this.#socket.on('data', (chunk: Buffer) => this.#read(chunk))
    this.#socket.on('error', (error) => this.end(this.#lost(error.message, error)))
    this.#socket.on('close', () => this.end(this.#lost('The server closed the connection')))
    if (!settings.keepsAlive) this.#socket.unref()
  }

  get isReady(): boolean {
    return this.#stage === 'ready'
  }

  /** Sends a request now, behind all that were sent before. */
  request<T>(call: Call<T>): Promise<T> {
    if (this.#stage !== 'ready') throw new Error('A request came before the connection was ready.')
    const xid = this.#nextXid()
    return new Promise((resolve, reject) => {
      const frame = frameOf(call, xid, this.#settings.frameBytesMax)
      const settle = (code: number, reader: JuteReader): void => {
        if (code !== 0) {
          call.answered?.(code)
          reject(refusal(code, call.name, call.path))
          return
        }
        const value = call.read(reader)
        call.answered?.(0)
        resolve(value)
      }
      this.#push({ xid, name: call.name, path: call.path, sentAtMs: monotonicMs(), settle, reject })
      this.#send(frame)
    })
  }

  /** Adds credentials to those that were sent at the start. */
  prove({ scheme, credential }: Credential): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#proofs.push({ resolve, reject })
      this.#socket.ref()
      this.#send(authFrame(scheme, credential))
    })
  }

  /** Looks at the time: sends a ping if it is due, and ends a connection that is silent although something is awaited. */
  tick(now: number): void {
    if (this.#stage === 'ended') return
    if (this.#stage !== 'ready' || this.#welcome === null) {
      if (now - this.#startedAtMs > this.#settings.connectMs)
        this.end(this.#lost('It did not answer in time'))
      return
    }
    const { sessionMs } = this.#welcome
    const head = this.#pending[this.#first]
    const { requestMs } = this.#settings
    if (requestMs !== null && head !== undefined && now - head.sentAtMs > requestMs) {
      return this.end(this.#lost(`No answer came within ${requestMs} ms`))
    }
    // A ping goes out after a third of the session without a request, so all in all the silence is two thirds long.
    const silence = this.#isSilent(head?.sentAtMs, (sessionMs * 2) / 3, now)
    if (silence || this.#isSilent(this.#pingAtMs ?? this.#provedAtMs, sessionMs / 3, now)) {
      return this.end(this.#lost('It does not answer any more'))
    }
    if (this.#pingAtMs === null && now - this.#sentAtMs >= sessionMs / 3) {
      this.#pingAtMs = now
      this.#send(pingFrame())
    }
  }

  /** Whether what was sent then should have been answered by now, counted from the answer before it. */
  #isSilent(sentAtMs: number | null | undefined, ms: number, now: number): boolean {
    return sentAtMs !== null && sentAtMs !== undefined && now - Math.max(sentAtMs, this.#answeredAtMs) > ms
  }

  get #provedAtMs(): number | null {
    return this.#proofs.length > 0 ? this.#sentAtMs : null
  }

  /** Ends the connection. Everything that was not answered is rejected with the reason. */
  end(reason: ZooKeeperError): void {
    if (this.#stage === 'ended') return
    this.#stage = 'ended'
    this.#socket.destroy()
    const unanswered = this.#pending.slice(this.#first)
    this.#pending = []
    this.#first = 0
    for (const each of unanswered) each.reject(forRequest(reason, each.name, each.path, true))
    for (const proof of this.#proofs.splice(0)) proof.reject(reason)
    this.#events.ended(reason)
  }

  #greet(): void {
    if (!this.#settings.keepsAlive) this.#socket.unref()
    this.#greetedAtMs = monotonicMs()
    this.#send(greetingFrame(this.#settings.greeting))
  }

  #read(chunk: Buffer): void {
    try {
      for (const frame of this.#frames.read(chunk)) {
        if (this.#stage === 'ended') return
        if (this.#stage === 'greeting') this.#readWelcome(frame)
        else this.#readAnswer(new JuteReader(frame))
      }
    } catch (error) {
      if (this.#stage === 'ended') return
      const reason = error instanceof ZooKeeperError ? error : garbage('it cannot be read')
      this.end(reason)
    }
  }

  #readWelcome(frame: Buffer): void {
    const welcome = readWelcome(new JuteReader(frame))
    const asked = this.#settings.greeting.sessionId
    if (welcome.sessionMs <= 0) throw expired()
    if (welcome.sessionId === 0n || (asked !== 0n && asked !== welcome.sessionId)) {
      throw garbage('it answers with a session that was not asked for')
    }
    this.#frames.allow(this.#settings.frameBytesMax)
    this.#welcome = welcome
    this.#stage = 'proving'
    this.#events.heard(this.#greetedAtMs)
    if (this.#settings.auth.length === 0) return this.#becomeReady(welcome)
    let left = this.#settings.auth.length
    const resolve = (): void => {
      left -= 1
      if (left === 0) this.#becomeReady(welcome)
    }
    for (const { scheme, credential } of this.#settings.auth) {
      this.#proofs.push({ resolve, reject: () => undefined })
      this.#send(authFrame(scheme, credential))
    }
  }

  #becomeReady(welcome: Welcome): void {
    this.#stage = 'ready'
    this.#socket.unref()
    for (const frame of this.#events.welcomed(welcome)) this.#send(frame)
    this.#events.ready()
  }

  #readAnswer(reader: JuteReader): void {
    const [xid, zxid, code] = [reader.int(), reader.long(), reader.int()]
    if (xid === XID.event) {
      const event = readEvent(reader)
      if (event !== null) this.#events.event(event.type, event.path)
      return
    }
    this.#answeredAtMs = monotonicMs()
    if (xid === XID.ping) return this.#readPong(code)
    if (xid === XID.auth) return this.#readProof(code)
    if (xid === XID.setWatches) {
      if (code !== 0) throw refusal(code, 'to keep the watches', null)
      return
    }
    const head = this.#pending[this.#first]
    if (head === undefined || head.xid !== xid) throw garbage('it answers a request that is not the next one')
    // A value that cannot be read ends the connection while the request still counts as unanswered.
    head.settle(code, reader)
    this.#shift()
    if (zxid > 0n) this.#events.sawZxid(zxid)
    if (isFinal(codeOf(code))) throw refusal(code, head.name, null)
    this.#events.heard(head.sentAtMs)
  }

  #readPong(code: number): void {
    if (this.#pingAtMs === null) throw garbage('it answers a ping that was not sent')
    if (code !== 0) throw refusal(code, 'a ping', null)
    const sentAtMs = this.#pingAtMs
    this.#pingAtMs = null
    this.#events.heard(sentAtMs)
  }

  #readProof(code: number): void {
    const proof = this.#proofs[0]
    if (proof === undefined) throw garbage('it answers credentials that were not sent')
    if (code !== 0) throw refusal(code, 'the credentials', null)
    this.#proofs.shift()
    this.#restIfIdle()
    proof.resolve()
  }

  #push(pending: Pending): void {
    if (this.#pending.length === 0) this.#socket.ref()
    this.#pending.push(pending)
  }

  #shift(): void {
    this.#first += 1
    if (this.#first === this.#pending.length) {
      this.#pending = []
      this.#first = 0
      this.#restIfIdle()
    } else if (this.#first > 1_024 && this.#first * 2 > this.#pending.length) {
      this.#pending = this.#pending.slice(this.#first)
      this.#first = 0
    }
  }

  /** A connection that nobody waits for does not keep the process alive. */
  #restIfIdle(): void {
    const idle = this.#stage === 'ready' && this.#pending.length === 0 && this.#proofs.length === 0
    if (idle) this.#socket.unref()
  }

  #send(frame: Buffer): void {
    this.#sentAtMs = monotonicMs()
    // What is sent in one turn goes out in one piece.
    if (!this.#corked) {
      this.#corked = true
      this.#socket.cork()
      process.nextTick(() => {
        this.#corked = false
        this.#socket.uncork()
      })
    }
    this.#socket.write(frame)
  }

  #nextXid(): number {
    this.#lastXid = this.#lastXid >= XID_MAX ? 1 : this.#lastXid + 1
    return this.#lastXid
  }

  #lost(what: string, cause?: unknown): ZooKeeperError {
    return connectionLoss(`The connection to ${this.address} was lost: ${what}.`, cause)
  }
}
