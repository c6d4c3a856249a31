import { asyncContexts } from '../../core/async-context.js'
import type { SqlLink, SqlRunner, SqlSession } from './link.js'

/** How a connection is made ready to be kept. */
export interface Preparation {
  /** What the server calls the connection. */
  idOf(session: SqlRunner): Promise<string>
  /** Sees to it that the server keeps the connection while it is used, and frees what it has soon after it vanishes. */
  prepare(session: SqlRunner): Promise<void>
}

export interface ReadySession {
  readonly session: SqlSession
  readonly connection: string
}

/** One connection out of the pool for as long as it is needed, and another one when it has ended. */
export class KeptSession {
  readonly #link: SqlLink
  readonly #preparation: Preparation
  #current: Promise<ReadySession> | null = null

  constructor(link: SqlLink, preparation: Preparation) {
    this.#link = link
    this.#preparation = preparation
  }

  async ready(): Promise<ReadySession> {
    for (;;) {
      // Later callers use the connection too, so it must not keep the async context of the first one.
      const current = this.#current ?? asyncContexts.outside(() => this.#connect())
      this.#current = current
      try {
        const ready = await current
        if (!ready.session.isEnded) return ready
      } catch (error) {
        if (this.#current === current) this.#current = null
        throw error
      }
      if (this.#current === current) this.#current = null
    }
  }

  /** Closed and not given back: locks and settings of it must not reach whoever gets it next. */
  async close(): Promise<void> {
    const current = this.#current
    this.#current = null
    const opened = await current?.catch(() => null)
    opened?.session.destroy()
  }

  async #connect(): Promise<ReadySession> {
    const session = await this.#link.session()
    try {
      await this.#preparation.prepare(session)
      return { session, connection: await this.#preparation.idOf(session) }
    } catch (error) {
      session.destroy()
      throw error
    }
  }
}
