/**
 * A client of ZooKeeper. Requests go out in the order of the calls over one connection and are answered in that order. A
 * request while there is no connection rejects at once; nothing is sent a second time.
 */

import { within } from '../clock.js'
import type { Call } from './call.js'
import { codeOf, ZooKeeperError } from './errors.js'
import type { JuteReader, JuteWriter } from './jute.js'
import {
  CREATE_FLAGS,
  type CreateMode,
  isSequential,
  type MultiOperation,
  type MultiResult,
  readMulti,
  resultsOf,
  writeMulti,
} from './multi.js'
import { checkOptions, type ZooKeeperOptions } from './options.js'
import { Chroot, checkedPath } from './paths.js'
import {
  type Acl,
  type NodeEventType,
  OPCODE,
  OPEN_ACL,
  readAcl,
  readStat,
  type Stat,
  writeAcl,
} from './records.js'
import { Session, type SessionKey, type SessionState } from './session.js'
import type { WatchKind, WatchListener } from './watches.js'

export type { Credential } from './call.js'
export { ZooKeeperError, type ZooKeeperErrorCode } from './errors.js'
export type { CreateMode, MultiOperation, MultiResult } from './multi.js'
export type { ZooKeeperOptions } from './options.js'
export { type Acl, CREATOR_ACL, OPEN_ACL, PERMISSION, type Stat } from './records.js'
export type { SessionKey, SessionState } from './session.js'
export type { TlsSettings } from './socket.js'
export type { WatchListener } from './watches.js'

const FRAME_BYTES_MAX = 4 * 1_024 * 1_024
const ANY_VERSION = -1
const CLOSE_MAX_MS = 5_000
const OK = 0

export class ZooKeeper {
  readonly #session: Session
  readonly #chroot: Chroot
  readonly #stateListeners = new Set<(state: SessionState) => void>()
  #closing: Promise<void> | null = null

  private constructor(options: ZooKeeperOptions) {
    this.#chroot = new Chroot(options.chroot)
    this.#session = new Session(
      {
        hosts: options.hosts,
        sessionMs: Math.round(options.sessionMs),
        auth: options.auth ?? [],
        tls: options.tls,
        connectMs: options.connectMs ?? options.sessionMs / Math.max(options.hosts.length, 3),
        requestMs: options.requestMs ?? null,
        frameBytesMax: options.frameBytesMax ?? FRAME_BYTES_MAX,
        key: options.session,
      },
      {
        state: (state) => this.#stateChanged(state),
        event: (type, path) => this.#fire(this.#session.watches.take(type, path), type, path),
      },
    )
  }

  /** Resolves with a live session; rejects if no server gave one within `sessionMs`. */
  static async connect(options: ZooKeeperOptions): Promise<ZooKeeper> {
    checkOptions(options)
    const client = new ZooKeeper(options)
    await client.#session.open()
    return client
  }

  get sessionId(): bigint {
    return this.#session.key.sessionId
  }

  /** What another client needs to go on with the session. The password in it is a secret. */
  get sessionKey(): SessionKey {
    return this.#session.key
  }

  get sessionMs(): number {
    return this.#session.sessionMs
  }

  get state(): SessionState {
    return this.#session.state
  }

  get serverAddress(): string | null {
    return this.#session.serverAddress
  }

  /**
   * The monotonic time at which the last answered request or ping was sent: the session lives at least `sessionMs` from
   * there, as far as the server that answered can tell. A server that is not the leader passes pings on a little later.
   */
  get heardFrom(): number {
    return this.#session.heardFromMs
  }

  async create(
    path: string,
    data: Buffer,
    options: { readonly mode?: CreateMode; readonly acl?: readonly Acl[] } = {},
  ): Promise<{ path: string; stat: Stat }> {
    const { mode = 'persistent', acl = OPEN_ACL } = options
    const full = this.#full(path, isSequential(mode))
    const opcode = mode === 'container' ? OPCODE.createContainer : OPCODE.create2
    const write = (flags: number) => (writer: JuteWriter) => {
      writer.text(full).buffer(data)
      writeAcl(writer, acl)
      writer.int(flags)
    }
    const read = (reader: JuteReader) => ({ path: reader.text(), stat: readStat(reader) })
    try {
      const made = await this.#send({ name: 'create', opcode, path, write: write(CREATE_FLAGS[mode]), read })
      return { path: this.#chroot.toClient(made.path), stat: made.stat }
    } catch (error) {
      if (!(error instanceof ZooKeeperError) || error.code !== 'UNIMPLEMENTED') throw error
    }
    // Servers before 3.5 know neither containers nor the answer with a stat.
    const flags = CREATE_FLAGS[mode === 'container' ? 'persistent' : mode]
    const old = { name: 'create', opcode: OPCODE.create, path, write: write(flags) }
    const made = this.#chroot.toClient(await this.#send({ ...old, read: (reader) => reader.text() }))
    const stat = await this.exists(made)
    if (stat !== null) return { path: made, stat }
    throw new ZooKeeperError('NO_NODE', `The node '${made}' was deleted right after it was created.`, {
      path: made,
      wasSent: true,
    })
  }

  async delete(path: string, version = ANY_VERSION): Promise<void> {
    const full = this.#full(path)
    const write = (writer: JuteWriter) => void writer.text(full).int(version)
    await this.#send({ name: 'delete', opcode: OPCODE.delete, path, write, read: nothing })
  }

  /** A watch on a missing node tells of its creation. */
  async exists(path: string, watch?: WatchListener): Promise<Stat | null> {
    const call = this.#watching('exists', OPCODE.exists, path, watch, readStat, (code) => {
      if (code === OK) return 'data'
      return codeOf(code) === 'NO_NODE' ? 'exists' : null
    })
    try {
      return await this.#send(call)
    } catch (error) {
      if (error instanceof ZooKeeperError && error.code === 'NO_NODE') return null
      throw error
    }
  }

  async getData(path: string, watch?: WatchListener): Promise<{ data: Buffer; stat: Stat }> {
    const read = (reader: JuteReader) => ({ data: reader.buffer(), stat: readStat(reader) })
    const kind = (code: number) => (code === OK ? 'data' : null)
    return this.#send(this.#watching('getData', OPCODE.getData, path, watch, read, kind))
  }

  async children(path: string, watch?: WatchListener): Promise<{ names: readonly string[]; stat: Stat }> {
    const read = (reader: JuteReader) => {
      const names = reader.vector(4, () => reader.text())
      return { names, stat: readStat(reader) }
    }
    const kind = (code: number) => (code === OK ? 'children' : null)
    return this.#send(this.#watching('children', OPCODE.children, path, watch, read, kind))
  }

  async setData(path: string, data: Buffer, version = ANY_VERSION): Promise<Stat> {
    const full = this.#full(path)
    const write = (writer: JuteWriter) => void writer.text(full).buffer(data).int(version)
    return this.#send({ name: 'setData', opcode: OPCODE.setData, path, write, read: readStat })
  }

  /** What is read behind it is at least as new as everything that was committed when the leader saw it. */
  async sync(path: string): Promise<void> {
    const full = this.#full(path)
    const write = (writer: JuteWriter) => void writer.text(full)
    await this.#send({ name: 'sync', opcode: OPCODE.sync, path, write, read: nothing })
  }

  /** All or nothing. The rejection names the operation that failed by its `index`. */
  async multi(operations: readonly MultiOperation[]): Promise<MultiResult[]> {
    const full = operations.map((operation) => {
      const sequential = operation.type === 'create' && isSequential(operation.mode ?? 'persistent')
      return { ...operation, path: this.#full(operation.path, sequential) }
    })
    const outcomes = await this.#send({
      name: 'multi',
      opcode: OPCODE.multi,
      path: null,
      write: (writer) => writeMulti(writer, full),
      read: (reader) => readMulti(reader, full.length),
    })
    return resultsOf(outcomes, operations).map((result) =>
      result.type === 'create' ? { ...result, path: this.#chroot.toClient(result.path) } : result,
    )
  }

  async getAcl(path: string): Promise<{ acl: readonly Acl[]; stat: Stat }> {
    const full = this.#full(path)
    const write = (writer: JuteWriter) => void writer.text(full)
    const read = (reader: JuteReader) => ({ acl: readAcl(reader), stat: readStat(reader) })
    return this.#send({ name: 'getAcl', opcode: OPCODE.getAcl, path, write, read })
  }

  async setAcl(path: string, acl: readonly Acl[], version = ANY_VERSION): Promise<Stat> {
    const full = this.#full(path)
    const write = (writer: JuteWriter) => {
      writer.text(full)
      writeAcl(writer, acl)
      writer.int(version)
    }
    return this.#send({ name: 'setAcl', opcode: OPCODE.setAcl, path, write, read: readStat })
  }

  /** The credentials are used from here on, at every connect too. A server that refuses them ends the session. */
  async addAuth(scheme: string, credential: string): Promise<void> {
    await this.#session.prove({ scheme, credential })
  }

  /** Forgets a watch here. The server may still send its event, which then concerns nobody. */
  unwatch(path: string, listener: WatchListener): void {
    this.#session.watches.remove(this.#full(path), listener)
  }

  /** Gives a function that stops it. */
  onState(listener: (state: SessionState) => void): () => void {
    this.#stateListeners.add(listener)
    return () => void this.#stateListeners.delete(listener)
  }

  /** Ends the session, and with it its ephemeral nodes. What was asked for before is answered first. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  /** Drops the connection and leaves the session to expire. */
  abandon(): void {
    this.#session.finish('closed', closedHere('abandoned'))
  }

  async #close(): Promise<void> {
    const call: Call<void> = {
      name: 'closeSession',
      opcode: OPCODE.closeSession,
      path: null,
      write: () => undefined,
      read: nothing,
    }
    const waitMs = Math.min(this.#session.sessionMs, CLOSE_MAX_MS)
    const late = () =>
      new ZooKeeperError('REQUEST_TIMEOUT', 'The end of the session was not confirmed in time.')
    // A session whose end was not confirmed expires by itself, so there is nothing that a caller could do about it.
    await within(waitMs, this.#session.request(call), late).catch(() => undefined)
    this.#session.finish('closed', closedHere('closed'))
  }

  #send<T>(call: Call<T>): Promise<T> {
    if (this.#closing === null || this.state === 'expired') return this.#session.request(call)
    return Promise.reject(closedHere('closed', call.path))
  }

  #watching<T>(
    name: string,
    opcode: number,
    path: string,
    watch: WatchListener | undefined,
    read: (reader: JuteReader) => T,
    kindOf: (code: number) => WatchKind | null,
  ): Call<T> {
    const full = this.#full(path)
    const write = (writer: JuteWriter) => void writer.text(full).bool(watch !== undefined)
    const answered = (code: number) => {
      const kind = kindOf(code)
      if (watch !== undefined && kind !== null) this.#session.watches.add(kind, full, watch)
    }
    return { name, opcode, path, write, read, answered }
  }

  #full(path: string, sequential = false): string {
    return this.#chroot.toServer(checkedPath(path, sequential))
  }

  #stateChanged(state: SessionState): void {
    if (state === 'expired' || state === 'closed') {
      for (const [path, listeners] of this.#session.watches.takeAll()) this.#fire(listeners, 'none', path)
    }
    for (const listener of this.#stateListeners) tell(() => listener(state))
  }

  #fire(listeners: ReadonlySet<WatchListener>, type: NodeEventType | 'none', path: string): void {
    const event = { type, path: this.#chroot.toClient(path) }
    for (const listener of listeners) tell(() => listener(event))
  }
}

function nothing(): void {}

/** A listener that throws must not end the connection, nor keep others from being told. */
function tell(listener: () => void): void {
  try {
    listener()
  } catch (error) {
    process.emitWarning(error instanceof Error ? error : new Error(String(error)))
  }
}

function closedHere(how: 'closed' | 'abandoned', path: string | null = null): ZooKeeperError {
  return new ZooKeeperError('CLOSED', `The session was ${how} by this client.`, { path })
}
