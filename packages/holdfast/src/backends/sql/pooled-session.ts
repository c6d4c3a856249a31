import { OutcomeUnknownError } from '../../core/errors.js'
import type { SqlResult, SqlSession, Statement } from './link.js'

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
  readonly #listeners: (() => void)[] = []
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

  onEnd(listener: () => void): void {
    if (this.#state === 'ended') listener()
    else this.#listeners.push(listener)
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
    this.#unlisten()
    this.client.release()
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
