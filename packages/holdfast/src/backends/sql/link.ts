/** What the recipes need of a database, whichever driver it is reached through. */

export type Row = Readonly<Record<string, unknown>>

/** A text that is fixed before anything from outside is known: names, owners and notes are only ever values. */
export interface Statement {
  /** What the driver prepares it under; equal names mean equal texts. */
  readonly name: string
  readonly text: string
  /** For what some servers do not prepare, such as the beginning of a transaction. It has no values. */
  readonly isPlain?: true
}

export interface SqlResult {
  readonly rows: readonly Row[]
  readonly affected: number
  /** The number that the statement drew, where the server tells. */
  readonly lastId?: number
}

export interface SqlRunner {
  /** Rejects with an error of Holdfast where it is understood. */
  run(statement: Statement, values?: readonly unknown[]): Promise<SqlResult>
}

/** One connection, kept out of the pool for as long as somebody needs what the server keeps for it. */
export interface SqlSession<Client = unknown> extends SqlRunner {
  /** The driver's own connection, for the caller's statements in a transaction. */
  readonly client: Client
  readonly isEnded: boolean
  /**
   * Calls back once, when the connection is closed by anybody, or has broken. At once if that was before. Gives what takes
   * the listener away again.
   */
  onEnd(listener: () => void): () => void
  /** Gives it back to the pool, as clean as it came. */
  release(): void
  /** Closes it, so that the server forgets everything that it kept for it. */
  destroy(): void
}

export interface SqlLink<Client = unknown> extends SqlRunner {
  session(): Promise<SqlSession<Client>>
  /** Runs a text of many statements; there is nothing from outside in it. */
  script(text: string): Promise<void>
  /** Ends what Holdfast itself has opened. A pool that was given stays open. */
  close(): Promise<void>
}
