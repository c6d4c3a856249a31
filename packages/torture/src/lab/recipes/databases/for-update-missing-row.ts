import type { Pool as MysqlPool } from 'mysql2/promise'
import type { Pool } from 'pg'
import type { LabAcquireOptions, LabHold, LabLock } from '../../lock.js'

/** The names are rows, and nobody has inserted one for the name of the schedule. */
export const TABLE_OF_NAMES = 'CREATE TABLE app_locks (name varchar(200) PRIMARY KEY)'

/** Holds the lock of a row for as long as a transaction lasts, and does not look whether there is a row. */
export class ForUpdateOnPostgres implements LabLock {
  readonly #pool: Pool

  constructor(pool: Pool) {
    this.#pool = pool
  }

  async acquire(name: string, { waitMs }: LabAcquireOptions): Promise<LabHold | null> {
    const tx = await this.#pool.connect()
    try {
      await tx.query('BEGIN')
      await tx.query(`SET LOCAL lock_timeout = ${Math.max(1, waitMs)}`)
      await tx.query('SELECT name FROM app_locks WHERE name = $1 FOR UPDATE', [name])
    } catch (error) {
      tx.release(true)
      if (codeOf(error) === '55P03') return null
      throw error
    }
    return heldUntilCommit(tx)
  }

  async close(): Promise<void> {
    await this.#pool.end()
  }
}

/** The same on MySQL and MariaDB, at the level that many programs set so as not to lock gaps. */
export class ForUpdateOnMysql implements LabLock {
  readonly #pool: MysqlPool

  constructor(pool: MysqlPool) {
    this.#pool = pool
  }

  async acquire(name: string, { waitMs }: LabAcquireOptions): Promise<LabHold | null> {
    const tx = await this.#pool.getConnection()
    try {
      await tx.query('SET SESSION innodb_lock_wait_timeout = ?', [Math.max(1, Math.ceil(waitMs / 1_000))])
      await tx.query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED')
      await tx.query('START TRANSACTION')
      await tx.query('SELECT name FROM app_locks WHERE name = ? FOR UPDATE', [name])
    } catch (error) {
      tx.destroy()
      if (codeOf(error) === 'ER_LOCK_WAIT_TIMEOUT') return null
      throw error
    }
    return heldUntilCommit(tx)
  }

  async close(): Promise<void> {
    await this.#pool.end()
  }
}

/** What both drivers call a connection that a transaction is open on. */
interface Transaction {
  query(text: string): Promise<unknown>
  release(): void
}

function heldUntilCommit(tx: Transaction): LabHold {
  return {
    release: async () => {
      await tx.query('COMMIT')
      tx.release()
      return 'released'
    },
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error ? Reflect.get(error, 'code') : undefined
}
