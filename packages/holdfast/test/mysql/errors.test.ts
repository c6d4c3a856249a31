import mysql from 'mysql2/promise'
import { describe, expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { connectError, mysqlError } from '../../src/backends/mysql/errors.js'
import { mysqlLink } from '../../src/backends/mysql/link.js'
import {
  BackendUnavailableError,
  DeadlockError,
  LockTimeoutError,
  OutcomeUnknownError,
  SerializationError,
  UnsupportedError,
} from '../../src/core/errors.js'
import { mysqlBackend } from '../../src/mysql.js'
import { claimOf, NO_SINK } from '../support/claims.js'
import { describeMysql } from './support.js'

const PATIENCE = { waitMs: 0, leaseMs: 1_000 }

function driverError(message: string, more: object): Error {
  return Object.assign(new Error(message), more)
}

describe('what the driver reports', () => {
  it.each([
    [1213, DeadlockError],
    [1205, LockTimeoutError],
    [3572, LockTimeoutError],
    [1020, SerializationError],
    ...[1146, 1305, 1044, 1045, 1142, 1143, 1227, 1370, 1049, 1568, 1665].map((errno) => [
      errno,
      UnsupportedError,
    ]),
    ...[1040, 1203, 1226, 1290, 1792, 1836, 1114].map((errno) => [errno, BackendUnavailableError]),
    ...[1053, 1317, 1927, 1969, 2006, 2013, 3024, 4031].map((errno) => [errno, OutcomeUnknownError]),
  ] as [number, new () => Error][])('%i is understood', (errno, kind) => {
    const error = driverError('as the server says', { errno, code: 'ER_SOMETHING', sqlState: 'HY000' })
    expect(mysqlError(error)).toBeInstanceOf(kind)
    expect(mysqlError(error)).toMatchObject({ backend: 'mysql', cause: error })
  })

  it.each([
    ['PROTOCOL_CONNECTION_LOST', OutcomeUnknownError],
    ['ECONNRESET', OutcomeUnknownError],
    ['EPIPE', OutcomeUnknownError],
    ['ECONNREFUSED', BackendUnavailableError],
    ['ENOTFOUND', BackendUnavailableError],
    // What the server says by itself has its number here.
    [4031, OutcomeUnknownError],
  ] as unknown as [string | number, new () => Error][])('%s is understood', (code, kind) => {
    expect(mysqlError(driverError('of the driver', { code, errno: -111 }))).toBeInstanceOf(kind)
    expect(connectError(driverError('of the driver', { code, errno: -111 }))).toBeInstanceOf(
      BackendUnavailableError,
    )
  })

  it.each([
    'Pool is closed.',
    'Queue limit reached.',
    'No connections available.',
    "Can't add new command when connection is in closed state",
  ])('"%s" means that nothing was sent', (message) => {
    expect(mysqlError(new Error(message))).toBeInstanceOf(BackendUnavailableError)
  })

  it('is given back as it is where it is not understood, without what it reveals', () => {
    const error = driverError("Duplicate entry 'x' for key 'PRIMARY'", {
      errno: 1062,
      sql: "INSERT INTO t VALUES ('secret')",
      sqlMessage: "Duplicate entry 'x'",
    })
    expect(mysqlError(error)).toBe(error)
    expect(error).not.toHaveProperty('sql')
    expect(error).not.toHaveProperty('sqlMessage')
    expect(mysqlError('no error at all')).toBe('no error at all')
  })
})

await describeMysql('a failing server', (place) => {
  it('that does not let somebody in, or is not there, is told apart', async () => {
    const { port } = place.server
    const open = (options: object): Promise<void> =>
      mysqlBackend({ pool: place.pool({ uri: `mysql://root@127.0.0.1:${port}/holdfast`, ...options }) }).open(
        NO_SINK,
      )
    await expect(open({ password: 'wrong' })).rejects.toThrow('the user name or the password')
    await expect(open({ database: 'nowhere' })).rejects.toThrow('no such database')
    await expect(open({ uri: 'mysql://root@127.0.0.1:1/holdfast' })).rejects.toThrow(BackendUnavailableError)
    const pool = mysql.createPool({ uri: place.server.url })
    await pool.end()
    await expect(mysqlBackend({ pool }).open(NO_SINK)).rejects.toThrow(BackendUnavailableError)
  })

  it('says which rights are missing', async () => {
    await place.backend()
    await place.server.query("CREATE USER IF NOT EXISTS 'reader'@'127.0.0.1' IDENTIFIED BY ''")
    await place.server.query("GRANT SELECT ON holdfast.* TO 'reader'@'127.0.0.1'")
    const backend = mysqlBackend({ pool: place.pool({ user: 'reader' }) })
    await backend.open(NO_SINK)
    await expect(backend.attempt(claimOf('x'), PATIENCE)).rejects.toThrow('holdfast doctor')
    await expect(backend.renew([{ claim: claimOf('x'), fence: 1n, leaseMs: 1 }])).rejects.toThrow(
      UnsupportedError,
    )
  })

  it('that takes no writes is unavailable', async () => {
    await place.backend()
    await place.server.query("CREATE USER IF NOT EXISTS 'writer'@'127.0.0.1' IDENTIFIED BY ''")
    await place.server.query(
      "GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON holdfast.* TO 'writer'@'127.0.0.1'",
    )
    const backend = mysqlBackend({ pool: place.pool({ user: 'writer' }) })
    await backend.open(NO_SINK)
    const claim = claimOf('written')
    expect((await backend.attempt(claim, PATIENCE)).kind).toBe('granted')
    await place.server.query('SET GLOBAL read_only = 1')
    try {
      await expect(backend.attempt(claimOf('other'), PATIENCE)).rejects.toThrow(BackendUnavailableError)
      await expect(backend.release(claim)).rejects.toThrow(BackendUnavailableError)
    } finally {
      await place.server.query('SET GLOBAL read_only = 0')
    }
    expect(await backend.release(claim)).toBe('released')
  })

  it('is not used with autocommit off, nor waited for where the pool has no connection', async () => {
    const pool = place.pool({ connectionLimit: 1, queueLimit: 1 })
    await pool.query('SET SESSION autocommit = 0')
    await expect(mysqlBackend({ pool }).open(NO_SINK)).rejects.toThrow('autocommit')
    const taken = await pool.getConnection()
    const asked = performance.now()
    const waiting = mysqlBackend({ pool }).open(NO_SINK)
    await expect(mysqlBackend({ pool }).open(NO_SINK)).rejects.toThrow(BackendUnavailableError)
    await expect(waiting).rejects.toThrow('`connectionLimit`')
    expect(performance.now() - asked).toBeGreaterThan(3_500)
    taken.release()
    // The connection that came too late went back.
    await (await pool.getConnection()).query('SELECT 1')
  })

  it.each(['KILL QUERY', 'KILL CONNECTION'])('that ends a step by %s leaves nothing locked', async (kill) => {
    const pool = place.pool({ connectionLimit: 1 })
    const backend = await place.backend({ pool })
    const holder = claimOf('killed')
    // The second can never hold it, so it goes the long way from the start.
    for (const waiter of [claimOf('killed'), claimOf('killed', { weight: 2 })]) {
      await backend.attempt(holder, PATIENCE)
      const other = await place.pool().getConnection()
      await other.query('START TRANSACTION')
      await other.query('SELECT seat FROM holdfast_places WHERE name = ? FOR UPDATE', ['killed'])
      const [ids] = await pool.query<mysql.RowDataPacket[]>('SELECT CONNECTION_ID() AS id')
      const failure = backend.attempt(waiter, { waitMs: 1, leaseMs: 30_000 }).catch((error: unknown) => error)
      const id = String(ids[0]?.['id'])
      const processes = (): ReturnType<typeof place.server.query> =>
        place.server.query('SHOW FULL PROCESSLIST')
      let looks = 0
      // A statement that is seen again and again has come to the row that is locked.
      const isLockedOut = async (): Promise<boolean> => {
        const own = (await processes()).find(([each]) => String(each) === id)
        looks = own?.[4] === 'Sleep' ? 0 : looks + 1
        return looks > 10
      }
      await until('the step waits for the row', isLockedOut, { everyMs: 30, state: processes })
      await place.server.query(`${kill} ${id}`)
      expect(await failure).toBeInstanceOf(OutcomeUnknownError)
      await other.query('ROLLBACK')
      other.release()
      expect((await backend.attempt(waiter, { waitMs: 1, leaseMs: 30_000 })).kind).toBe('waiting')
      expect(await backend.release(holder)).toBe('released')
      expect(await backend.release(waiter)).toBe('released')
    }
  })

  it.each(['KILL', 'wait_timeout'])('that ends an idle session by %s is noticed', async (how) => {
    const session = await mysqlLink(place.pool(), { end: async () => {} }).session()
    const ended = new Promise<void>((resolve) => session.onEnd(resolve))
    const id = { name: 'id', text: 'SELECT CONNECTION_ID() AS id' }
    const { rows } = await session.run(id)
    if (how === 'KILL') await place.server.query(`KILL ${String(rows[0]?.['id'])}`)
    else await session.run({ name: 'timeout', text: 'SET SESSION wait_timeout = 1', isPlain: true })
    await ended
    expect(session.isEnded).toBe(true)
    await expect(session.run(id)).rejects.toThrow(BackendUnavailableError)
  })
})
