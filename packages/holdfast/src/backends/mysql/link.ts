/** `mysql2` as the recipes need it. */

import { asyncContexts } from '../../core/async-context.js'
import { DeadlockError, LockTimeoutError, SerializationError, UnsupportedError } from '../../core/errors.js'
import type { Row, SqlLink, SqlResult, SqlSession, Statement } from '../sql/link.js'
import {
  answeredInTime,
  connected,
  PooledSession,
  releaseOutside,
  type ServerName,
} from '../sql/pooled-session.js'
import type { MysqlConnection, MysqlCoreConnection, MysqlDone, MysqlPool } from './client.js'
import { connectError, errno, mysqlError } from './errors.js'
import { splitScript } from './schema.js'

export interface MysqlLinkOptions {
  /** What to do at the end with the pool: nothing, if it was given. */
  readonly end: () => Promise<void>
}

const MYSQL: ServerName = { backend: 'mysql', server: 'MySQL', setting: 'connectionLimit' }
/** ER_SP_ALREADY_EXISTS. */
const ROUTINE_EXISTS = 1304

/** Whatever the pool was told to make of results. */
const AS_IS = { typeCast: true, rowsAsArray: false, nestTables: false }

const ignore = (): void => {}

export function mysqlLink<Connection extends MysqlConnection>(
  pool: MysqlPool<Connection>,
  options: MysqlLinkOptions,
): SqlLink<Connection> {
  return new MysqlLink(pool, options)
}

class MysqlLink<Connection extends MysqlConnection> implements SqlLink<Connection> {
  readonly #pool: MysqlPool<Connection>
  readonly #options: MysqlLinkOptions

  constructor(pool: MysqlPool<Connection>, options: MysqlLinkOptions) {
    this.#pool = pool
    this.#options = options
  }

  async run(statement: Statement, values: readonly unknown[] = []): Promise<SqlResult> {
    const connection = await taken(this.#core())
    try {
      const result = await answered(connection, statement, values)
      releaseOutside(() => connection.release())
      return result
    } catch (error) {
      if (leavesInOrder(error)) releaseOutside(() => connection.release())
      else destroy(connection)
      throw error
    }
  }

  async session(): Promise<SqlSession<Connection>> {
    return new MysqlSession(await taken(asyncContexts.outside(() => this.#pool.getConnection())))
  }

  async script(text: string): Promise<void> {
    const session = await this.session()
    try {
      for (const statement of splitScript(text)) {
        await session.client.query(statement).catch((error: unknown) => {
          if (errno(error) !== ROUTINE_EXISTS) throw error
        })
      }
      session.release()
    } catch (error) {
      session.destroy()
      throw mysqlError(error)
    }
  }

  async close(): Promise<void> {
    await this.#options.end()
  }

  /** A connection that the pool makes now serves later callers too, so it must not keep the async context of this one. */
  #core(): Promise<MysqlCoreConnection> {
    return new Promise((resolve, reject) => {
      const done = (error: unknown, connection: unknown): void => {
        if (error) reject(error as Error)
        else resolve(connection as MysqlCoreConnection)
      }
      asyncContexts.outside(() => this.#pool.pool.getConnection(done))
    })
  }
}

async function taken<Connection extends { release(): void }>(
  connecting: Promise<Connection>,
): Promise<Connection> {
  try {
    return await connected(connecting, MYSQL)
  } catch (error) {
    throw connectError(error)
  }
}

class MysqlSession<Connection extends MysqlConnection> extends PooledSession<Connection> {
  protected override ask(statement: Statement, values: readonly unknown[]): Promise<SqlResult> {
    return answered(this.client.connection as MysqlCoreConnection, statement, values)
  }

  protected override shut(): void {
    destroy(this.client.connection as MysqlCoreConnection)
  }
}

async function answered(
  connection: MysqlCoreConnection,
  { text, isPlain }: Statement,
  values: readonly unknown[],
): Promise<SqlResult> {
  try {
    const call = new Promise<unknown>((resolve, reject) => {
      const done: MysqlDone = (error, result) => (error ? reject(error) : resolve(result))
      if (isPlain === true) connection.query(text, done)
      else connection.execute({ sql: text, ...AS_IS }, values, done)
    })
    return resultOf(await answeredInTime(call, MYSQL))
  } catch (error) {
    throw mysqlError(error)
  }
}

/** Rows, or a header for what gives none; and from a routine a list of results, the last of which with rows is the answer. */
function resultOf(result: unknown): SqlResult {
  const isList = Array.isArray(result) && Array.isArray(result[0])
  const answer: unknown = isList ? result.findLast((each) => Array.isArray(each) && each.length > 0) : null
  const first: unknown = answer ?? (isList ? result[0] : result)
  if (Array.isArray(first)) return { rows: first as Row[], affected: first.length }
  const affected: unknown = Reflect.get(Object(first), 'affectedRows')
  const lastId = Number(Reflect.get(Object(first), 'insertId'))
  return { rows: [], affected: typeof affected === 'number' ? affected : 0, lastId }
}

/**
 * What the server has refused as a whole has left the connection in order. Anything else may not have: a routine that is
 * killed runs no handler, and leaves its transaction open.
 */
function leavesInOrder(error: unknown): boolean {
  return [DeadlockError, LockTimeoutError, SerializationError, UnsupportedError].some(
    (kind) => error instanceof kind,
  )
}

/**
 * The driver only asks for the end of the connection, which a server that hangs never grants; and it forgets whoever still
 * waits for an answer over a connection that was destroyed, unless its socket breaks with an error.
 */
function destroy(connection: MysqlCoreConnection): void {
  // It may still report that it breaks while it is being closed.
  connection.on('error', ignore)
  connection.destroy()
  connection.stream?.destroy?.(connectionLost())
}

function connectionLost(): Error {
  return Object.assign(new Error('The connection was closed.'), { code: 'PROTOCOL_CONNECTION_LOST' })
}
