/** As much of `pg` as Holdfast uses, so that the library needs no driver to be compiled or loaded. */

export interface PgQuery {
  readonly text: string
  readonly values?: unknown[]
  /** Prepared once for each connection under this name. */
  readonly name?: string
}

export interface PgResult {
  // oxlint-disable-next-line no-explicit-any -- the driver's own type of a row, so that a given pool fits
  readonly rows: any[]
  readonly rowCount: number | null
}

export interface PgNotification {
  readonly channel: string
  readonly payload?: string | undefined
}

/** A connection that was taken out of a pool. */
export interface PgClient {
  query(query: PgQuery): Promise<PgResult>
  query(text: string, values?: unknown[]): Promise<PgResult>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'end', listener: () => void): unknown
  on(event: 'notification', listener: (message: PgNotification) => void): unknown
  removeListener(event: string, listener: () => void): unknown
  /** true, or an error: it is closed instead of going back to the pool. */
  release(destroy?: Error | boolean): void
}

/** A ready `Pool` of `pg`. */
export interface PgPool<Client extends PgClient = PgClient> {
  connect(): Promise<Client>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'connect', listener: (client: Client) => void): unknown
  removeListener(event: string, listener: (client: Client) => void): unknown
  end(): Promise<void>
}
