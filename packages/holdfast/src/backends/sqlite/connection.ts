/** One connection: its cached statements, its short transactions, and its patience with a busy file. */

import { resolve } from 'node:path'
import {
  BackendUnavailableError,
  ClosedError,
  OutcomeUnknownError,
  quote,
  UnsupportedError,
} from '../../core/errors.js'
import type { DriverName, SqliteDatabase, SqliteStatement } from './client.js'
import { breathe, elapsedMs, jittered, type Machine, Pauses } from './clock.js'
import { pickDriver } from './driver.js'
import { busyAdvice, busyError, driverError, isBusy, isNoTransaction } from './errors.js'
import { prepareFile, refuseNetworkFileSystem } from './file-system.js'
import { rowOf } from './rows.js'
import { initialise, isInitialised } from './schema.js'

export interface ConnectionOptions {
  readonly path: string
  readonly database: SqliteDatabase | undefined
  readonly driver: DriverName | undefined
  readonly busyMs: number
  /** `FULL`: what is committed outlasts a power cut. `NORMAL`, the default: only the end of the process. */
  readonly synchronous?: 'FULL' | 'NORMAL'
  /** Whether what is written in one turn of the event loop is written in one transaction. */
  readonly together?: boolean
}

/** One write among others. */
interface Write {
  readonly work: (sql: Sql) => unknown
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
}

/**
 * SQLite's own waiting blocks the whole process, so there is none; the waiting happens here, between timers.
 */
const BUSY_TIMEOUT_MS = 0
const PAGE_BYTES = 1_024
const PAUSE_MIN_MS = 1
const PAUSE_MAX_MS = 16
/** Bounds how long one transaction keeps the event loop, and everybody else who wants to write. */
const TOGETHER_MAX = 64

/** Gives the statement for a text, prepared once per connection. */
export type Sql = (text: string) => SqliteStatement

export class Connection {
  readonly path: string
  readonly #options: ConnectionOptions
  readonly #pauses = new Pauses()
  readonly #statements = new Map<string, SqliteStatement>()
  #database: SqliteDatabase | null = null
  #gathered: Write[] = []
  /** How many requests wait for another process to finish writing. */
  #blocked = 0
  /**
   * Set when the tables are there, so that a hasty request finds the backend not open rather than half open.
   */
  #ready = false
  #closed = false

  constructor(options: ConnectionOptions) {
    this.#options = options
    // An absolute path is never taken for a URL or for the name of a database in memory.
    this.path = resolve(options.path)
  }

  async open(machine: Machine): Promise<void> {
    if (this.#closed) throw this.#notOpen()
    const database = await this.#openDatabase()
    if (this.#closed) {
      this.#dispose(database)
      throw this.#notOpen()
    }
    this.#database = database
    await this.#setUp(database, machine)
    this.#ready = true
  }

  /**
   * Runs `work` in a transaction that has the write lock from the start. It must be synchronous. A single statement gets
   * one, too: libsql leaves a statement that found the file busy unfinished, and the next commit would fail for it.
   */
  async write<T>(work: (sql: Sql) => T): Promise<T> {
    if (!this.#ready) throw this.#notOpen()
    if (this.#options.together !== true) return await this.#writeOne(work)
    return await new Promise<T>((resolve, reject) => {
      this.#gathered.push({ work, resolve: resolve as Write['resolve'], reject })
      if (this.#gathered.length === 1) void this.#flush()
    })
  }

  /** Runs `work` without a transaction. Each statement in it sees one consistent state. */
  async read<T>(work: (sql: Sql) => T): Promise<T> {
    if (!this.#ready) throw this.#notOpen()
    return await this.#patiently(() => work(this.#sql))
  }

  /** Why requests are not answered just now; null where nothing keeps them. */
  get silence(): string | null {
    return this.#blocked > 0 ? busyAdvice(this.path) : null
  }

  close(): void {
    this.#closed = true
    this.#pauses.endAll()
    this.disconnect()
  }

  /** After a failed opening, which may be tried again, and at the end. */
  disconnect(): void {
    const database = this.#database
    this.#database = null
    this.#ready = false
    // libsql keeps a closed database alive as long as a statement of it exists.
    this.#statements.clear()
    if (database !== null) this.#dispose(database)
  }

  async #openDatabase(): Promise<SqliteDatabase> {
    const { database, driver } = this.#options
    if (database !== undefined) {
      await this.#checkGiven(database)
      return database
    }
    const Database = await pickDriver(driver)
    await prepareFile(this.path)
    try {
      return new Database(this.path)
    } catch (error) {
      throw driverError(error, this.path)
    }
  }

  async #checkGiven(database: SqliteDatabase): Promise<void> {
    let file: string | null
    try {
      const main = database.prepare('PRAGMA database_list').all()[0]
      file = rowOf(main, this.path, null).textOrNull('file')
    } catch (error) {
      throw driverError(error, this.path)
    }
    if (file === null || file === '') {
      throw new UnsupportedError(
        'The given SQLite database lies in memory, where no other process sees it.',
        { backend: 'sqlite' },
      )
    }
    await refuseNetworkFileSystem(file)
  }

  async #setUp(database: SqliteDatabase, machine: Machine): Promise<void> {
    const { path } = this
    await this.#patiently(() => database.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`))
    // Before anything is changed, the switch to WAL included, it must be clear whose file this is.
    await this.#patiently(() => isInitialised(this.#sql, path))
    // Takes effect on a new file only. Rows are small and every commit writes whole pages, so small pages are quicker.
    await this.#patiently(() => database.exec(`PRAGMA page_size = ${PAGE_BYTES}`))
    await this.#patiently(() => switchToWal(this.#sql, path))
    await this.#patiently(() => database.exec('PRAGMA synchronous = FULL'))
    await this.#patiently(() =>
      this.#transaction(database, (sql) => initialise(database, sql, path, machine)),
    )
    const { synchronous = 'NORMAL' } = this.#options
    if (synchronous === 'NORMAL') await this.#patiently(() => database.exec('PRAGMA synchronous = NORMAL'))
  }

  #writeOne<T>(work: (sql: Sql) => T): Promise<T> {
    return this.#patiently((database) => this.#transaction(database, work))
  }

  /** Once everything has been read that has arrived, all that it asks for is written in the order in which it came. */
  async #flush(): Promise<void> {
    await breathe()
    const gathered = this.#gathered
    this.#gathered = []
    for (let from = 0; from < gathered.length; from += TOGETHER_MAX) {
      await this.#writeTogether(gathered.slice(from, from + TOGETHER_MAX))
    }
  }

  async #writeTogether(writes: readonly Write[]): Promise<void> {
    let hasThrown = false
    const all = (sql: Sql): readonly unknown[] => {
      hasThrown = true
      const results = writes.map(({ work }) => work(sql))
      hasThrown = false
      return results
    }
    try {
      const results = await this.#writeOne(all)
      for (const [index, { resolve }] of writes.entries()) resolve(results[index])
    } catch (error) {
      // What one of them has done wrong is no business of the others, and nothing of it was written.
      if (hasThrown && !(error instanceof OutcomeUnknownError)) await this.#writeApart(writes)
      else for (const { reject } of writes) reject(error)
    }
  }

  async #writeApart(writes: readonly Write[]): Promise<void> {
    for (const { work, resolve, reject } of writes) await this.#writeOne(work).then(resolve, reject)
  }

  /** Tries again, between pauses that leave the process free, as long as somebody else has the file. */
  async #patiently<T>(work: (database: SqliteDatabase) => T): Promise<T> {
    const { busyMs } = this.#options
    let startedAt: number | null = null
    let pauseMs = PAUSE_MIN_MS
    for (;;) {
      const database = this.#database
      if (database === null) throw this.#notOpen()
      try {
        return work(database)
      } catch (error) {
        if (!isBusy(error)) throw driverError(error, this.path)
        startedAt ??= elapsedMs()
        const waitedMs = elapsedMs() - startedAt
        if (waitedMs >= busyMs) throw busyError(this.path, waitedMs, error)
      }
      this.#blocked += 1
      await this.#pauses.start(jittered(pauseMs))
      this.#blocked -= 1
      pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS)
    }
  }

  #transaction<T>(database: SqliteDatabase, work: (sql: Sql) => T): T {
    this.#sql('BEGIN IMMEDIATE').run()
    let result: T
    try {
      result = work(this.#sql)
    } catch (error) {
      this.#rollBack(database, error)
      throw error
    }
    try {
      this.#sql('COMMIT').run()
    } catch (error) {
      this.#rollBack(database, error)
      throw isBusy(error) ? error : driverError(error, this.path, true)
    }
    return result
  }

  #rollBack(database: SqliteDatabase, cause: unknown): void {
    try {
      database.exec('ROLLBACK')
    } catch (error) {
      if (isNoTransaction(error)) return
      throw new OutcomeUnknownError(
        `A transaction on the SQLite database ${quote(this.path)} failed and could not be rolled back. ` +
          'Close this client and open another one.',
        { backend: 'sqlite', cause: new AggregateError([cause, error]) },
      )
    }
  }

  readonly #sql: Sql = (text) => {
    const known = this.#statements.get(text)
    if (known !== undefined) return known
    if (this.#database === null) throw this.#notOpen()
    const statement = this.#database.prepare(text)
    this.#statements.set(text, statement)
    return statement
  }

  #dispose(database: SqliteDatabase): void {
    // A given database is its giver's to close.
    if (database !== this.#options.database) database.close()
  }

  #notOpen(): ClosedError | BackendUnavailableError {
    if (this.#closed) return new ClosedError({ backend: 'sqlite' })
    return new BackendUnavailableError('The SQLite backend was not opened yet.', { backend: 'sqlite' })
  }
}

function switchToWal(sql: Sql, path: string): void {
  const row = rowOf(sql('PRAGMA journal_mode = WAL').get(), path, null)
  const mode = row.text('journal_mode')
  if (mode === 'wal') return
  throw new UnsupportedError(
    `The SQLite database ${quote(path)} stays in journal mode ${quote(mode)}, because its file system ` +
      'cannot do WAL. Use a path on a local disk.',
    { backend: 'sqlite' },
  )
}
