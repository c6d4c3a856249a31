/** Each lock in a transaction of its own, on a connection of its own: the lock, the work and the commit are one. */

import type { Claim, Guarantees, Owner, Patience } from '../../core/backend.js'
import { HoldfastError, LockTimeoutError, SerializationError } from '../../core/errors.js'
import { type ConnectionView, type Held, type Keeping } from '../sessions/connection-backend.js'
import { CONNECTION_GUARANTEES } from '../sessions/connection-guarantees.js'
import { monotonicMs } from '../shared/clock.js'
import { KeptSession, type Preparation } from './kept-session.js'
import type { SqlLink, SqlRunner, SqlSession, Statement } from './link.js'
import { refusePooler } from './shared-session.js'

/** How one database locks for a transaction. */
export interface TransactionRecipe extends Preparation {
  readonly name: string
  readonly guarantees: Pick<Guarantees, 'fencing' | 'waiting'>
  readonly schema?: string
  /**
   * Begins a transaction, and says in it whose it is. Nothing of that outlives it. Gives the mark that tells it from every
   * other transaction, also from those of other servers.
   */
  begin(session: SqlRunner, isolation: Isolation, owner: Owner): Promise<string>
  /**
   * Takes the lock in the transaction that has begun, within `waitMs`; 0 does not wait. Gives the fence, or null where
   * somebody else has it. `control` is another connection, for what must not be part of the transaction.
   */
  lock(
    session: SqlRunner,
    control: SqlRunner,
    resource: string,
    mark: string,
    waitMs: number,
  ): Promise<bigint | null>
  /** Called before the caller gets the connection, where `isOpen` needs something to look for. */
  guard?(session: SqlRunner): Promise<void>
  /** Asks over the connection of the transaction whether that transaction is still open, and not another one. */
  isOpen(session: SqlRunner, mark: string): Promise<boolean>
  /** Ends the statement that a connection is at. Recipes that never wait in the server have none. */
  cancel?(control: SqlRunner, connection: string): Promise<void>
  /**
   * The indexes of those whose transactions are open and have the lock. `control` may be connected to another server by
   * now, after a failover, so a number that one server gave to a connection proves nothing by itself.
   */
  alive(control: SqlRunner, held: readonly LockedTransaction[]): Promise<ReadonlySet<number>>
  holder(control: SqlRunner, resource: string): Promise<ConnectionView | null>
  end(control: SqlRunner, connection: string): Promise<boolean>
  migrate?(link: SqlLink): Promise<void>
}

/** A transaction that has a lock, as `alive` looks for it. */
export interface LockedTransaction {
  readonly connection: string
  readonly resource: string
  readonly mark: string
}

export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

export const ISOLATIONS: readonly Isolation[] = ['read committed', 'repeatable read', 'serializable']

const ROLLBACK: Statement = { name: 'holdfast_rollback', text: 'ROLLBACK', isPlain: true }

/** The longest that a statement waits in the server for a lock: a client that died while it waits is noticed after it. */
const WAIT_MS_MAX = 1_000

/** How many transactions are begun for one attempt where the database says that an earlier one saw too little. */
const TRIES = 3

/** A claim that is being taken. */
interface Taking {
  readonly connection: string
  /** Settles when the server has been told that nobody waits any more. */
  cancelled: Promise<void> | null
}

/** `take` makes every one that is given to the other methods. */
type OwnHeld = Held<SqlSession> & LockedTransaction

export class OwnTransactions implements Keeping<SqlSession> {
  readonly name: string
  readonly guarantees: Guarantees
  readonly schema?: string
  readonly #link: SqlLink
  readonly #recipe: TransactionRecipe
  readonly #isolation: Isolation
  /** Asks after the others, which may be busy with a long statement of the caller's. */
  readonly #control: KeptSession
  readonly #ids = new WeakMap<object, string>()
  readonly #taking = new Map<string, Taking>()

  /** The transactions to ask after next. */
  readonly #asked = new Set<OwnHeld>()
  #asking: Promise<void> = Promise.resolve()
  #next: Promise<ReadonlySet<OwnHeld>> | null = null

  constructor(link: SqlLink, recipe: TransactionRecipe, isolation: Isolation) {
    this.name = recipe.name
    this.guarantees = { ...CONNECTION_GUARANTEES, ...recipe.guarantees }
    if (recipe.schema !== undefined) this.schema = recipe.schema
    this.#link = link
    this.#recipe = recipe
    this.#isolation = isolation
    this.#control = new KeptSession(link, recipe)
  }

  async open(): Promise<void> {
    const { session } = await this.#control.ready()
    await refusePooler(this.#link, session, this.#recipe)
  }

  async migrate(): Promise<void> {
    await this.#recipe.migrate?.(this.#link)
  }

  async take(claim: Claim, patience: Patience): Promise<OwnHeld | null> {
    const { session: control } = await this.#control.ready()
    const session = await this.#link.session()
    try {
      const connection = await this.#idOf(session)
      const taking: Taking = { connection, cancelled: null }
      this.#taking.set(claim.id, taking)
      // The grant counts from before the statement was sent, so the wait must leave most of the ttl over.
      const waitMs = Math.min(patience.waitMs, WAIT_MS_MAX, claim.ttlMs / 4)
      const locked = await this.#lock(session, control, claim, waitMs)
      // What is cancelled is whatever the connection is at by then, which must not be somebody else's statement.
      if (taking.cancelled !== null) await taking.cancelled
      this.#taking.delete(claim.id)
      if (locked !== null) return { ...locked, session, connection, resource: claim.resource }
      await session.run(ROLLBACK)
      session.release()
      return null
    } catch (error) {
      session.destroy()
      throw error
    } finally {
      this.#taking.delete(claim.id)
    }
  }

  /** Who waits in the server would otherwise get the lock, if only for a moment, and be in the way. */
  async abandon({ id }: Claim): Promise<void> {
    const taking = this.#taking.get(id)
    if (taking === undefined || this.#recipe.cancel === undefined) return
    taking.cancelled ??= this.#cancel(taking.connection)
    await taking.cancelled
  }

  /** If it cannot be told, the wait ends by itself. */
  async #cancel(connection: string): Promise<void> {
    try {
      await this.#recipe.cancel?.((await this.#control.ready()).session, connection)
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error
    }
  }

  /** A pool gives the same connections again and again, and none of them changes its name. */
  async #idOf(session: SqlSession): Promise<string> {
    const client = session.client as object
    const known = this.#ids.get(client)
    if (known !== undefined) return known
    const id = await this.#recipe.idOf(session)
    this.#ids.set(client, id)
    return id
  }

  /** Nothing of the caller's has happened yet, so a transaction that saw too little is simply begun again. */
  async #lock(
    session: SqlSession,
    control: SqlRunner,
    { resource, owner }: Claim,
    waitMs: number,
  ): Promise<Pick<OwnHeld, 'fence' | 'mark' | 'sentAt'> | null> {
    for (let tries = 1; ; tries += 1) {
      const mark = await this.#recipe.begin(session, this.#isolation, owner)
      const sentAt = monotonicMs()
      try {
        const fence = await this.#recipe.lock(session, control, resource, mark, waitMs)
        return fence === null ? null : { fence, mark, sentAt }
      } catch (error) {
        if (error instanceof LockTimeoutError) return null
        if (!(error instanceof SerializationError) || tries === TRIES) throw error
        await session.run(ROLLBACK)
      }
    }
  }

  /** Whatever of the transaction was not committed by now was not meant to be. */
  async giveUp({ session }: Held<SqlSession>, _claim: Claim, isOverdue: boolean): Promise<boolean> {
    if (session.isEnded) return false
    if (isOverdue) {
      // A statement of the caller's may be under way on it, so there is nothing to be asked any more.
      session.destroy()
      return true
    }
    try {
      await session.run(ROLLBACK)
      session.release()
    } catch {
      // Its end is a rollback, too.
      session.destroy()
    }
    return true
  }

  /** Prepares the connection for the caller's statements, any of which may end the transaction. */
  async guard({ session }: OwnHeld): Promise<void> {
    await this.#recipe.guard?.(session)
  }

  async isIntact({ session, mark }: OwnHeld): Promise<boolean> {
    return !session.isEnded && (await this.#recipe.isOpen(session, mark))
  }

  async alive(held: readonly OwnHeld[]): Promise<ReadonlySet<OwnHeld>> {
    for (const each of held) this.#asked.add(each)
    const there = await this.#answerToAll()
    return new Set(held.filter((each) => !each.session.isEnded && there.has(each)))
  }

  /** While one question is under way, the others gather and go out together, so that none waits for more than two. */
  #answerToAll(): Promise<ReadonlySet<OwnHeld>> {
    this.#next ??= this.#asking.then(async () => {
      const asked = [...this.#asked]
      this.#asked.clear()
      this.#next = null
      const { session: control } = await this.#control.ready()
      const alive = await this.#recipe.alive(control, asked)
      return new Set(asked.filter((_, index) => alive.has(index)))
    })
    const answer = this.#next
    this.#asking = answer.then(
      () => {},
      () => {},
    )
    return answer
  }

  async holder(resource: string): Promise<ConnectionView | null> {
    return await this.#recipe.holder((await this.#control.ready()).session, resource)
  }

  async end(connection: string): Promise<boolean> {
    return await this.#recipe.end((await this.#control.ready()).session, connection)
  }

  async close(): Promise<void> {
    await this.#control.close()
    await this.#link.close()
  }
}
