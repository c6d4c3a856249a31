import { asyncContexts } from '../../core/async-context.js'
import { BackendUnavailableError, OutcomeUnknownError } from '../../core/errors.js'
import { within } from '../shared/clock.js'
import type { SqlResult, SqlSession, Statement } from './link.js'

/** A pool that has no connection to give for this long is exhausted, and whoever asked shall hear of it. */
const CONNECT_MS = 4_000
/** A connection that owes an answer for this long is of no use to anybody. It is less than what a waiting caller puts up with. */
const HANG_MS = 8_000

/** A server, and what the setting of a pool is called that bounds its connections. */
export interface ServerName {
  readonly backend: string
  readonly server: string
  readonly setting: string
}

/** The connection that a pool was asked for. One that comes too late goes straight back. */
export function connected<Client extends { release(): void }>(
  connecting: Promise<Client>,
  { backend, server, setting }: ServerName,
): Promise<Client> {
  return within(CONNECT_MS, connecting, () => {
    connecting.then(
      (client) => client.release(),
      () => {},
    )
    return new BackendUnavailableError(
      `The pool gave no connection to ${server} within ${CONNECT_MS} ms: all are in use, or the server does not answer. ` +
        `Raise the \`${setting}\` of the pool if it is the former.`,
      { backend },
    )
  })
}

/** The answer to a statement, unless it is overdue. */
export function answeredInTime<T>(call: Promise<T>, { backend, server }: ServerName): Promise<T> {
  return within(HANG_MS, call, () => {
    return new OutcomeUnknownError(`${server} did not answer within ${HANG_MS} ms.`, { backend })
  })
}

/**
 * Gives a connection back to its pool. A pool starts a timer for an idle connection, or makes another connection for the
 * next in its queue, and neither may keep the async context of the caller that gives back.
 */
export function releaseOutside(release: () => void): void {
  asyncContexts.outside(release)
}

/** As much of a driver's connection as both drivers have. */
interface PooledClient {
  on(event: 'error', listener: () => void): unknown
  on(event: 'end', listener: () => void): unknown
  removeListener(event: string, listener: () => void): unknown
  release(): void
}

/** A connection out of a pool, until it is given back, closed, or broken. */
export abstract class PooledSession<Client extends PooledClient> implements SqlSession<Client> {
  readonly client: Client
  readonly #listeners = new Set<() => void>()
  #state: 'open' | 'ended' | 'given back' = 'open'
  readonly #onEnd = (): void => this.destroy()

  constructor(client: Client) {
    this.client = client
    // A socket that the server closes gives `end`; one that breaks, and a last word of the server, give `error`.
    client.on('error', this.#onEnd)
    client.on('end', this.#onEnd)
  }

  protected abstract ask(statement: Statement, values: readonly unknown[]): Promise<SqlResult>

  /** Closes the connection for good. It may still report that it breaks while that happens. */
  protected abstract shut(): void

  get isEnded(): boolean {
    return this.#state !== 'open'
  }

  onEnd(listener: () => void): () => void {
    if (this.#state === 'ended') listener()
    else this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async run(statement: Statement, values: readonly unknown[] = []): Promise<SqlResult> {
    try {
      return await this.ask(statement, values)
    } catch (error) {
      if (error instanceof OutcomeUnknownError) this.destroy()
      throw error
    }
  }

  release(): void {
    if (this.#state !== 'open') return
    this.#state = 'given back'
    this.#listeners.clear()
    this.#unlisten()
    releaseOutside(() => this.client.release())
  }

  destroy(): void {
    if (this.#state !== 'open') return
    this.#state = 'ended'
    this.#unlisten()
    this.shut()
    for (const listener of this.#listeners) listener()
  }

  #unlisten(): void {
    this.client.removeListener('error', this.#onEnd)
    this.client.removeListener('end', this.#onEnd)
  }
}
