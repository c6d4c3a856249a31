import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { HoldfastError } from 'holdfast'
import { connectRecords, openBackend, openCounter, type RecordStore } from 'holdfast/service'
import { makeApp, type Parts } from './app.js'
import type { AuthTokens } from './security/auth-entries.js'
import { openAuth } from './security/auth-file.js'
import { isLoopback } from './security/hosts.js'
import { type Limits, limitsOf } from './security/limits.js'
import { checkListen } from './security/listen-rule.js'
import { type Log, notice } from './security/log-line.js'
import type { TlsFiles } from './security/server-options.js'
import { Watcher } from './watch/watcher.js'

export interface ServiceOptions {
  /** The store, by the URLs of `connect()`. Left out: `sqlite:`. A value that is undefined, null or empty is refused. */
  readonly url?: string
  /** Default 127.0.0.1:4600. Port 0 takes a free one. */
  readonly listen?: { readonly host?: string; readonly port?: number }
  /** The path of an auth file, or what stands in one. Without it everybody may do everything. */
  readonly auth?: string | AuthTokens
  readonly tls?: TlsFiles
  /** Listen beyond this machine although authentication or TLS are missing. */
  readonly insecure?: boolean
  /** Further names under which the service may be called, besides the address it listens on. */
  readonly allowHosts?: readonly string[]
  readonly limits?: Partial<Limits>
  readonly log?: Log
}

export interface ServiceCloseOptions {
  /**
   * How long it still listens, and says at `/readyz` that it stops, before it closes the door: for what is in front of it
   * to notice. Default 0.
   */
  readonly noticeMs?: number
  /** How long requests that are under way may take to finish. Default 10,000. */
  readonly drainMs?: number
}

export interface Service {
  readonly app: FastifyInstance
  /** Where it listens; empty before `listen()`. */
  readonly url: string
  /** Begins to listen, and says where. */
  listen(): Promise<string>
  /** Stops: waiters are turned away, what is under way is finished, and the store is closed. Holds stay. */
  close(options?: ServiceCloseOptions): Promise<void>
}

const PORT = 4600
const DRAIN_MS = 10_000
const IDLE_LOOK_MS = 50
/** How many may knock at once. Whoever is beyond it believes to be in, and is told otherwise only after a quarter of a minute. */
const BACKLOG = 4_096

/** Makes a service over the store of a URL. It listens when it is told to. */
export async function createService(options: ServiceOptions = {}): Promise<Service> {
  const { host = '127.0.0.1', port = PORT } = options.listen ?? {}
  const { tls = null, insecure = false, log = null, allowHosts = [] } = options
  const hasAuth = options.auth !== undefined
  checkListen({ host, auth: hasAuth, tls: tls !== null, insecure })
  const limits = limitsOf(options.limits, !hasAuth && isLoopback(host))
  const closers: Closer[] = []
  try {
    const authority = options.auth === undefined ? null : await openAuth(options.auth, { log })
    closers.push(() => authority?.close())
    const url = urlOf(options)
    const backend = await openBackend(url, { servesMany: true })
    const counter = await openCounter(backend, { maxWaiters: limits.waitersPerNameMax })
    closers.push(() => counter.close())
    const records = await openRecords(url, log)
    closers.push(() => records?.close())
    const watcher = new Watcher({
      list: (prefix) => counter.list(prefix),
      inspect: (name) => counter.inspect(name),
      canList: counter.guarantees.shows === 'claims',
      onError: (error) => notice(log, 'error', `Watching the store failed: ${whatFailed(error)}.`),
    })
    closers.push(() => watcher.close())
    const instance = randomBytes(6).toString('hex')
    const draining = { isOn: false }
    const parts: Parts = {
      counter,
      records,
      watcher,
      authority,
      limits,
      log,
      tls,
      host,
      allowHosts,
      instance,
      isDraining: () => draining.isOn,
    }
    const app = await makeApp(parts)
    return new RunningService(app, parts, { host, port }, draining, closers)
  } catch (error) {
    await closeAll(closers)
    throw error
  }
}

/** The kind of an error and no more: its message may quote what a caller has sent. */
function whatFailed(error: unknown): string {
  return error instanceof Error ? error.name : typeof error
}

/** Only options without a URL mean the default: one that is undefined comes from a variable that is not set. */
function urlOf(options: ServiceOptions): string {
  // What the type does not allow is refused where the URL is read.
  return Object.hasOwn(options, 'url') ? (options.url as string) : 'sqlite:'
}

type Closer = () => Promise<void> | void

async function closeAll(closers: readonly Closer[]): Promise<void> {
  for (const close of closers.toReversed()) await close()
}

/** The records of idempotency that the store keeps. Locks are served also where there can be none. */
async function openRecords(url: string, log: Log | null): Promise<RecordStore | null> {
  try {
    const records = await connectRecords(url)
    await records.open()
    return records
  } catch (error) {
    const why = error instanceof HoldfastError ? error.message : 'its driver failed'
    notice(log, 'warning', `There are no records of idempotency at this store: ${why}`)
    return null
  }
}

class RunningService implements Service {
  readonly app: FastifyInstance
  readonly #parts: Parts
  readonly #at: { readonly host: string; readonly port: number }
  readonly #draining: { isOn: boolean }
  readonly #closers: readonly Closer[]
  #url = ''
  #closing: Promise<void> | null = null

  constructor(
    app: FastifyInstance,
    parts: Parts,
    at: { readonly host: string; readonly port: number },
    draining: { isOn: boolean },
    closers: readonly Closer[],
  ) {
    this.app = app
    this.#parts = parts
    this.#at = at
    this.#draining = draining
    this.#closers = closers
  }

  get url(): string {
    return this.#url
  }

  async listen(): Promise<string> {
    const { host, port } = this.#at
    await this.app.listen({ host, port, backlog: BACKLOG })
    const address = this.app.server.address()
    const at = typeof address === 'object' && address !== null ? address.port : port
    const scheme = this.#parts.tls === null ? 'http' : 'https'
    this.#url = `${scheme}://${host.includes(':') ? `[${host}]` : host}:${at}`
    return this.#url
  }

  close({ drainMs = DRAIN_MS, noticeMs = 0 }: ServiceCloseOptions = {}): Promise<void> {
    this.#closing ??= this.#close(noticeMs, drainMs)
    return this.#closing
  }

  /** New requests are told that it stops, those who wait are turned away, and what is left has `drainMs` to finish. */
  async #close(noticeMs: number, drainMs: number): Promise<void> {
    this.#draining.isOn = true
    this.#parts.counter.turnAway()
    if (noticeMs > 0) await sleep(noticeMs)
    const late = setTimeout(() => this.app.server.closeAllConnections(), drainMs)
    // A connection whose last request was answered after the door was closed would be kept open by its client.
    const idle = setInterval(() => this.app.server.closeIdleConnections(), IDLE_LOOK_MS)
    try {
      await this.app.close()
    } finally {
      clearTimeout(late)
      clearInterval(idle)
      await closeAll(this.#closers)
    }
  }
}
