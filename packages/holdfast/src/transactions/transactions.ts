/**
 * A lock that lasts exactly as long as a transaction, with the work on the same connection: what the work has written is
 * committed while the lock is held, or not at all.
 */

import type { ConnectionBackend } from '../backends/sessions/connection-backend.js'
import { jitteredPause } from '../backends/shared/clock.js'
import type { SqlSession, Statement } from '../backends/sql/link.js'
import type { Desk } from '../core/desk.js'
import {
  BackendUnavailableError,
  DeadlockError,
  LockLostError,
  OutcomeUnknownError,
  SerializationError,
} from '../core/errors.js'
import type { Hold, StoreHold } from '../core/hold.js'
import { type AcquireOptions, checkFunction, checkInteger, checkKeys, checkMs } from '../core/options.js'
import { Mutex } from '../primitives/mutex.js'

export interface TransactionOptions
  extends Pick<AcquireOptions, 'waitMs' | 'signal' | 'ttlMs' | 'maxHoldMs' | 'note'> {
  /**
   * How often the whole transaction is run again when the database has ended it for a deadlock or because it could not be
   * put in an order with others: then it did nothing, and running it again is right. Default 3; 0: never.
   */
  readonly retries?: number
}

/** What differs between databases. */
export interface TransactionParts<Client> {
  readonly backend: ConnectionBackend<SqlSession>
  /** The driver's connection as the caller shall have it. */
  clientOf(session: SqlSession): Client
  /** The driver's error as one of Holdfast's, where it is understood. */
  errorOf(error: unknown): unknown
}

const KEYS: readonly string[] = ['waitMs', 'signal', 'ttlMs', 'maxHoldMs', 'note', 'retries']
const COMMIT: Statement = { name: 'holdfast_commit', text: 'COMMIT', isPlain: true }
const RETRY_MS = 20
const RETRY_MS_MAX = 500
const RETRIES = 3
const RETRIES_MAX = 100

export class Transactions<Client> implements AsyncDisposable {
  readonly #desk: Desk
  readonly #parts: TransactionParts<Client>

  constructor(desk: Desk, parts: TransactionParts<Client>) {
    this.#desk = desk
    this.#parts = parts
  }

  /**
   * Waits for the lock, runs `work` on the connection that has it, commits, and so releases. If `work` throws, everything is
   * rolled back, and its error is thrown as it is, unless it is one that the database ended the transaction with.
   * Whatever `work` does elsewhere may happen more than once, so guard that with the fence.
   */
  async transaction<T>(
    name: string,
    work: (tx: Client, hold: Hold) => T | PromiseLike<T>,
    options: TransactionOptions = {},
  ): Promise<T> {
    checkKeys(options, KEYS)
    checkFunction(work, 'work')
    const { retries = RETRIES, waitMs, ...rest } = options
    checkInteger(retries, 'retries', 0, RETRIES_MAX)
    if (waitMs !== undefined) checkMs(waitMs, 'waitMs', 0)
    const mutex = new Mutex(this.#desk, name)
    const acquire = waitMs === undefined ? rest : { ...rest, waitMs }
    for (let tries = 0; ; tries += 1) {
      const hold = (await mutex.acquire(acquire)) as StoreHold
      try {
        return await this.#run(hold, work)
      } catch (error) {
        const mayRunAgain = error instanceof SerializationError || error instanceof DeadlockError
        if (!mayRunAgain || tries >= retries) throw error
      } finally {
        await hold.releaseToStore()
      }
      await jitteredPause(Math.min(RETRY_MS * 2 ** tries, RETRY_MS_MAX), options.signal ?? null)
    }
  }

  async #run<T>(hold: StoreHold, work: (tx: Client, hold: Hold) => T | PromiseLike<T>): Promise<T> {
    const session = await this.#parts.backend.lend(hold.standing.claim)
    if (session === null) throw hold.lostError ?? this.#vanished(hold)
    let value: T
    try {
      value = await work(this.#parts.clientOf(session), hold)
    } catch (error) {
      throw this.#reasonOf(error, hold)
    }
    // Nothing is lost yet if the lock is: the transaction is rolled back, and the caller hears why.
    hold.assertHeld()
    await this.#checkIntact(hold)
    await this.#commit(session, hold)
    return value
  }

  /** A statement that failed because the lock's connection was closed says less than the loss itself. */
  #reasonOf(error: unknown, hold: StoreHold): unknown {
    const meant = this.#parts.errorOf(error)
    const { lostError } = hold
    const isConnection = meant instanceof OutcomeUnknownError || meant instanceof BackendUnavailableError
    if (lostError === null || meant === error || !isConnection) return meant
    const context = { resource: hold.resource, backend: this.#desk.backend.name, cause: error }
    return new LockLostError(lostError.reason, context)
  }

  /** The work may have ended the transaction, and the lock with it: what would be committed now is another one. */
  async #checkIntact(hold: StoreHold): Promise<void> {
    let isIntact: boolean
    try {
      isIntact = await this.#parts.backend.isIntact(hold.standing.claim)
    } catch (error) {
      // The connection ended, and nothing was committed.
      throw error instanceof OutcomeUnknownError ? (hold.lostError ?? this.#vanished(hold)) : error
    }
    if (!isIntact) throw hold.lostError ?? this.#vanished(hold)
  }

  async #commit(session: SqlSession, hold: StoreHold): Promise<void> {
    if (session.isEnded) throw hold.lostError ?? this.#vanished(hold)
    try {
      await session.run(COMMIT)
    } catch (error) {
      if (!(error instanceof OutcomeUnknownError)) throw error
      throw new OutcomeUnknownError(
        'The connection ended before the commit was answered, so the transaction happened as a whole or not at all. Look ' +
          'before running it again.',
        { resource: hold.resource, backend: this.#desk.backend.name, cause: error },
      )
    }
  }

  #vanished(hold: StoreHold): OutcomeUnknownError {
    return new OutcomeUnknownError(
      'The connection of the transaction ended, and everything was rolled back.',
      {
        resource: hold.resource,
        backend: this.#desk.backend.name,
      },
    )
  }

  /** Makes the tables and routines that the recipe needs. */
  async migrate(): Promise<void> {
    await this.#parts.backend.migrate()
  }

  /** Takes no new transactions, and rolls back those that do not end within `drainMs`. */
  async close(drainMs = 0): Promise<void> {
    await this.#desk.close(checkMs(drainMs, 'drainMs', 0))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
