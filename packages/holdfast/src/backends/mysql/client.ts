/** As much of `mysql2/promise` as Holdfast uses, so that the library needs no driver to be compiled or loaded. */

export interface MysqlQuery {
  readonly sql: string
  /** These three are given with every statement, because those of the pool may be of any kind. */
  readonly typeCast?: boolean
  readonly rowsAsArray?: boolean
  readonly nestTables?: boolean
}

/**
 * The connection underneath, which has the socket. Statements go to it directly: the promises around it note a stack for
 * every one of them, which is a good part of the time that it takes.
 */
export interface MysqlCoreConnection {
  execute(query: MysqlQuery, values: readonly unknown[], done: MysqlDone): unknown
  query(text: string, done: MysqlDone): unknown
  release(): void
  destroy(): void
  on(event: 'error', listener: (error: Error) => void): unknown
  readonly stream?: { destroy?(error: Error): unknown }
}

export type MysqlDone = (error: Error | null, result?: unknown) => void

/** A connection that was taken out of a pool. */
export interface MysqlConnection {
  query(text: string, values?: unknown): Promise<[unknown, unknown]>
  /** Unknown, because the driver declares that it is one with promises again, which it is not. */
  readonly connection: unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'end', listener: () => void): unknown
  removeListener(event: 'error' | 'end', listener: () => void): unknown
  release(): void
  destroy(): void
}

/** A ready pool of `mysql2/promise`. */
export interface MysqlPool<Connection extends MysqlConnection = MysqlConnection> {
  getConnection(): Promise<Connection>
  /** The pool underneath. */
  readonly pool: {
    getConnection(done: (error: Error | null, connection: unknown) => void): void
  }
  end(): Promise<void>
}
