import { describe, expect, it } from 'vitest'
import { driverError, isBusy, sqliteCode } from '../../src/backends/sqlite/errors.js'
import { BackendUnavailableError, OutcomeUnknownError, UnsupportedError } from '../../src/core/errors.js'
import {
  claimOf,
  FakeMachine,
  fenceOf,
  NOW_OR_NEVER,
  openBackend,
  openRaw,
  tempPath,
  value,
} from './support.js'

function like(message: string, fields: object): Error {
  return Object.assign(new Error(message), fields)
}

/** As the three drivers really throw it. */
const SAME_BUSY = [
  like('database is locked', { code: 'ERR_SQLITE_ERROR', errcode: 5 }),
  like('database is locked', { code: 'SQLITE_BUSY', rawCode: 5 }),
  like('database is locked', { code: 'SQLITE_BUSY' }),
  like('database is locked', { code: 'SQLITE_BUSY_RECOVERY' }),
  like('database is locked', { code: 'ERR_SQLITE_ERROR', errcode: 261 }),
  like('locking protocol', { code: 'SQLITE_PROTOCOL', rawCode: 15 }),
]

describe('driver errors', () => {
  it.each(SAME_BUSY)('%s %o is busy', (error) => {
    expect(isBusy(error)).toBe(true)
  })

  it('are read from the text with which libsql fails to open', () => {
    const text = 'ConnectionFailed("Unable to open connection to local database /x/locks.db: 14")'
    expect(sqliteCode(like(text, { code: '' }))).toBe(14)
  })

  it.each([
    [10, BackendUnavailableError],
    [13, BackendUnavailableError],
    [8, BackendUnavailableError],
    [1032, BackendUnavailableError],
    [11, BackendUnavailableError],
    [14, BackendUnavailableError],
    [26, UnsupportedError],
  ])('with code %d become typed and keep their cause', (errcode, Class) => {
    const cause = like('driver text', { errcode })
    const error = driverError(cause, '/x/locks.db')
    expect(error).toBeInstanceOf(Class)
    expect((error as Error).cause).toBe(cause)
  })

  it('of the disk at the last step leave the outcome unknown', () => {
    expect(driverError(like('disk I/O error', { errcode: 778 }), '/x', true)).toBeInstanceOf(
      OutcomeUnknownError,
    )
  })

  it.each([
    like('no such table: places', { errcode: 1 }),
    like('constraint', { code: 'SQLITE_CONSTRAINT' }),
    'text',
  ])('that nobody understands stay what they are: %s', (error) => {
    expect(driverError(error, '/x')).toBe(error)
    expect(isBusy(error)).toBe(false)
  })
})

describe('a database that cannot be written', () => {
  it('because the disk is full gives a typed error, and works again when there is room', async () => {
    const path = await tempPath()
    const database = await openRaw(path)
    const backend = await openBackend({ path, database, machine: new FakeMachine() })
    // The bound on pages raises the same error as a full disk, at the same places.
    database.exec(`PRAGMA max_page_count = ${Number(value(database, 'PRAGMA page_count')) + 2}`)
    const fill = async (): Promise<void> => {
      for (;;) await fenceOf(backend, claimOf('n'.repeat(400) + Math.random()))
    }
    await expect(fill()).rejects.toThrow(BackendUnavailableError)
    expect(value(database, 'PRAGMA integrity_check')).toBe('ok')
    database.exec('PRAGMA max_page_count = 100000')
    expect((await backend.attempt(claimOf('a'), NOW_OR_NEVER)).kind).toBe('granted')
  })

  // The file's mode would not stop root, who runs the tests here; the pragma raises the same SQLITE_READONLY.
  it('because it is read-only gives a typed error, and nothing was done', async () => {
    const path = await tempPath()
    const database = await openRaw(path)
    const backend = await openBackend({ path, database, machine: new FakeMachine() })
    const held = claimOf('a')
    await fenceOf(backend, held)
    database.exec('PRAGMA query_only = ON')
    await expect(backend.release(held)).rejects.toThrow(BackendUnavailableError)
    await expect(fenceOf(backend, claimOf('b'))).rejects.toThrow(BackendUnavailableError)
    database.exec('PRAGMA query_only = OFF')
    expect(await backend.release(held)).toBe('released')
  })

  it('because a statement fails leaves no transaction open', async () => {
    const path = await tempPath()
    const backend = await openBackend({ path, machine: new FakeMachine() })
    const raw = await openRaw(path)
    await expect(backend.attempt(claimOf('a', { weight: 0 }), NOW_OR_NEVER)).rejects.toThrow(
      /CHECK|constraint/,
    )
    raw.exec('BEGIN IMMEDIATE')
    raw.exec('ROLLBACK')
    expect(await fenceOf(backend, claimOf('a'))).toBe(1n)
  })
})
