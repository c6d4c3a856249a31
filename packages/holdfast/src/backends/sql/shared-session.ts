/** All session locks of a client on one connection of its own. */

import type { Claim, Guarantees, Owner } from '../../core/backend.js'
import { BackendUnavailableError, UnsupportedError } from '../../core/errors.js'
import { type ConnectionView, type Held, type Keeping } from '../sessions/connection-backend.js'
import { CONNECTION_GUARANTEES } from '../sessions/connection-guarantees.js'
import { monotonicMs } from '../shared/clock.js'
import { KeptSession } from './kept-session.js'
import type { SqlLink, SqlRunner, SqlSession, Statement } from './link.js'

/** How one database locks for a session. None of it waits in the server: a connection that waits does nothing else. */
export interface SessionRecipe {
  readonly name: string
  /** What the server calls the connection. */
  idOf(session: SqlRunner): Promise<string>
  /** Whether what answers is what was connected to, where that can be told: before a pooler it is not. */
  isDirect?(session: SqlSession): Promise<boolean>
  /** Sees to it that the server keeps the connection while it is used, and frees what it has soon after it vanishes. */
  prepare(session: SqlRunner): Promise<void>
  /** Tells the server whose connection it is, for those who look. */
  introduce(session: SqlRunner, owner: Owner): Promise<void>
  /** The fence; null: somebody else has it. */
  tryLock(session: SqlRunner, resource: string): Promise<bigint | null>
  unlock(session: SqlRunner, resource: string): Promise<boolean>
  holder(runner: SqlRunner, resource: string): Promise<ConnectionView | null>
  end(runner: SqlRunner, connection: string): Promise<boolean>
}

const BEGIN: Statement = { name: 'holdfast_begin', text: 'BEGIN', isPlain: true }
const ROLLBACK: Statement = { name: 'holdfast_rollback', text: 'ROLLBACK', isPlain: true }
const PING: Statement = { name: 'holdfast_ping', text: 'SELECT 1 AS one' }

export class SharedSession implements Keeping<SqlSession> {
  readonly name: string
  readonly guarantees: Guarantees = CONNECTION_GUARANTEES
  readonly #link: SqlLink
  readonly #recipe: SessionRecipe
  readonly #kept: KeptSession
  #introduced: SqlSession | null = null

  constructor(link: SqlLink, recipe: SessionRecipe) {
    this.name = recipe.name
    this.#link = link
    this.#recipe = recipe
    this.#kept = new KeptSession(link, recipe)
  }

  async open(): Promise<void> {
    const { session } = await this.#kept.ready()
    await refusePooler(this.#link, session, this.#recipe)
  }

  async take(claim: Claim): Promise<Held<SqlSession> | null> {
    const { session, connection } = await this.#kept.ready()
    if (this.#introduced !== session) {
      this.#introduced = session
      await this.#recipe.introduce(session, claim.owner)
    }
    const sentAt = monotonicMs()
    const fence = await this.#recipe.tryLock(session, claim.resource)
    return fence === null ? null : { fence, session, connection, sentAt }
  }

  async giveUp({ session }: Held<SqlSession>, { resource }: Claim): Promise<boolean> {
    if (session.isEnded) return false
    return await this.#recipe.unlock(session, resource)
  }

  /** An answer over the connection says that it is there, and the server frees nothing while it is. */
  async alive(held: readonly Held<SqlSession>[]): Promise<ReadonlySet<Held<SqlSession>>> {
    const sessions = new Set(held.map(({ session }) => session).filter((session) => !session.isEnded))
    await Promise.all([...sessions].map((session) => session.run(PING)))
    return new Set(held.filter(({ session }) => sessions.has(session) && !session.isEnded))
  }

  async holder(resource: string): Promise<ConnectionView | null> {
    return await this.#recipe.holder((await this.#kept.ready()).session, resource)
  }

  async end(connection: string): Promise<boolean> {
    return await this.#recipe.end(this.#link, connection)
  }

  async close(): Promise<void> {
    await this.#kept.close()
    await this.#link.close()
  }
}

/**
 * A pooler between client and server gives each transaction whichever connection is free, so a session lock would be
 * somebody else's the next moment. It shows when two connections of ours turn out to be one, or one turns out to be two.
 */
export async function refusePooler(
  link: SqlLink,
  session: SqlSession,
  recipe: Pick<SessionRecipe, 'idOf' | 'isDirect' | 'name'>,
): Promise<void> {
  let other: SqlSession
  try {
    other = await link.session()
  } catch (error) {
    // A pool of one connection has none to compare with, so the mode of a pooler behind it does not show.
    if (!(error instanceof BackendUnavailableError)) throw error
    if ((await recipe.isDirect?.(session)) !== false) return
    throw new UnsupportedError(
      `There is a pooler before ${recipe.name}, and with one connection it cannot be seen whether session locks survive ` +
        'it. Give the pool a second one, connect to the server itself, or use the recipe `rows`.',
      { backend: recipe.name },
    )
  }
  try {
    const before = await recipe.idOf(session)
    await other.run(BEGIN)
    const between = await recipe.idOf(other)
    const after = await recipe.idOf(session)
    if (before === after && before !== between) {
      await other.run(ROLLBACK)
      other.release()
      return
    }
  } catch (error) {
    other.destroy()
    throw error
  }
  other.destroy()
  throw new UnsupportedError(
    `There is a pooler in transaction mode before ${recipe.name}, and session locks do not survive it. Connect to the ` +
      'server itself, or use the recipe `rows`.',
    { backend: recipe.name },
  )
}
