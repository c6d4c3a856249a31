/** `pg` as the recipes need it. */

import { asyncContexts } from '../../core/async-context.js'
import { BackendUnavailableError, OutcomeUnknownError } from '../../core/errors.js'
import type { SqlLink, SqlResult, SqlSession, Statement } from '../sql/link.js'
import {
  answeredInTime,
  connected,
  PooledSession,
  releaseOutside,
  type ServerName,
} from '../sql/pooled-session.js'
import type { PgClient, PgPool } from './client.js'
import { postgresError } from './errors.js'

export interface PgLinkOptions {
  /** Whether statements are prepared by name, which a pooler between client and server may not bear. */
  readonly prepare: boolean
  /** What to do at the end with the pool: nothing, if it was given. */
  readonly end: () => Promise<void>
}

const POSTGRES: ServerName = { backend: 'postgres', server: 'PostgreSQL', setting: 'max' }

const ignore = (): void => {}

/**
 * A server may end a connection in the same breath in which it says that it is ready: then it breaks before the pool has
 * given it to anybody who could listen, and would end the process. Who uses it hears of it all the same.
 */
const listenFromTheFirst = (client: PgClient): void => {
  client.on('error', ignore)
}

export function pgLink<Client extends PgClient>(
  pool: PgPool<Client>,
  options: PgLinkOptions,
): SqlLink<Client> {
  return new PgLink(pool, options)
}

class PgLink<Client extends PgClient> implements SqlLink<Client> {
  readonly #pool: PgPool<Client>
  readonly #options: PgLinkOptions

  constructor(pool: PgPool<Client>, options: PgLinkOptions) {
    this.#pool = pool
    this.#options = options
    // An idle connection that breaks is replaced by the pool; without a listener it would end the process.
    pool.on('error', ignore)
    pool.on('connect', listenFromTheFirst)
  }

  async run(statement: Statement, values: readonly unknown[] = []): Promise<SqlResult> {
    const client = await this.#connect()
    // Without a listener, a connection that breaks now would end the process.
    client.on('error', ignore)
    try {
      const result = await answered(client, statement, values, this.#options.prepare)
      client.removeListener('error', ignore)
      releaseOutside(() => client.release())
      return result
    } catch (error) {
      client.removeListener('error', ignore)
      // What the server has refused has left the connection in order; anything else may not have.
      const isBroken = error instanceof OutcomeUnknownError || error instanceof BackendUnavailableError
      releaseOutside(() => client.release(isBroken))
      throw error
    }
  }

  async session(): Promise<SqlSession<Client>> {
    return new PgSession(await this.#connect(), this.#options.prepare)
  }

  async script(text: string): Promise<void> {
    const session = await this.session()
    try {
      await session.client.query(text)
      session.release()
    } catch (error) {
      session.destroy()
      throw postgresError(error)
    }
  }

  async close(): Promise<void> {
    await this.#options.end()
    this.#pool.removeListener('error', ignore)
    this.#pool.removeListener('connect', listenFromTheFirst)
  }

  /** A connection that the pool makes now serves later callers too, so it must not keep the async context of this one. */
  async #connect(): Promise<Client> {
    try {
      return await connected(
        asyncContexts.outside(() => this.#pool.connect()),
        POSTGRES,
      )
    } catch (error) {
      throw postgresError(error)
    }
  }
}

class PgSession<Client extends PgClient> extends PooledSession<Client> {
  readonly #prepare: boolean
  #last: Promise<void> | null = null

  constructor(client: Client, prepare: boolean) {
    super(client)
    this.#prepare = prepare
  }

  /** One statement after the other: the driver wants to be asked for the next when it has answered the last. */
  override run(statement: Statement, values: readonly unknown[] = []): Promise<SqlResult> {
    const last = this.#last
    const answer =
      last === null ? super.run(statement, values) : last.then(() => super.run(statement, values))
    const settled: Promise<void> = answer.then(ignore, ignore).then(() => {
      if (this.#last === settled) this.#last = null
    })
    this.#last = settled
    return answer
  }

  protected override ask(statement: Statement, values: readonly unknown[]): Promise<SqlResult> {
    return answered(this.client, statement, values, this.#prepare)
  }

  protected override shut(): void {
    this.client.on('error', ignore)
    this.client.release(true)
  }
}

async function answered(
  client: PgClient,
  { name, text, isPlain }: Statement,
  values: readonly unknown[],
  prepare: boolean,
): Promise<SqlResult> {
  try {
    const query = { text, values: values as unknown[] }
    const call = client.query(prepare && isPlain !== true ? { name, ...query } : query)
    const { rows, rowCount } = await answeredInTime(call, POSTGRES)
    return { rows, affected: rowCount ?? 0 }
  } catch (error) {
    throw postgresError(error)
  }
}
