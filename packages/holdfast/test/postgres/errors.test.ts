import { storeFor } from 'holdfast-servers'
import pg from 'pg'
import { afterAll, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { postgresError } from '../../src/backends/postgres/errors.js'
import {
  BackendUnavailableError,
  connect,
  createLocks,
  DeadlockError,
  InvalidInputError,
  LockTimeoutError,
  OutcomeUnknownError,
  SerializationError,
  UnsupportedError,
} from '../../src/index.js'
import { postgresBackend } from '../../src/postgres.js'

const outcome = await storeFor('postgres')

function driverError(code: string, message = 'as the server says'): Error {
  return Object.assign(new Error(message), {
    code,
    detail: 'Key (id)=(secret)',
    where: 'secret',
    internalQuery: 'secret',
  })
}

describe('errors of PostgreSQL', () => {
  it.each([
    ['40001', SerializationError],
    ['40P01', DeadlockError],
    ['55P03', LockTimeoutError],
    ['42P01', UnsupportedError],
    ['42883', UnsupportedError],
    ['42501', UnsupportedError],
    ['HF001', UnsupportedError],
    ['25006', BackendUnavailableError],
    ['53300', BackendUnavailableError],
    ['57014', BackendUnavailableError],
    ['57P03', BackendUnavailableError],
    ['57P01', OutcomeUnknownError],
    ['08006', OutcomeUnknownError],
    ['ECONNREFUSED', BackendUnavailableError],
    ['ECONNRESET', OutcomeUnknownError],
  ] as const)('%s has its meaning, and carries no row', (code, kind) => {
    const cause = driverError(code)
    const error = postgresError(cause)
    expect(error).toBeInstanceOf(kind)
    expect((error as Error).cause).toBe(cause)
    expect(Object.values(cause).join()).not.toContain('secret')
  })

  it('what is not understood is given back as it is', () => {
    const strange = driverError('XX000')
    expect(postgresError(strange)).toBe(strange)
    expect(postgresError('no error at all')).toBe('no error at all')
  })
})

describe.skipIf(outcome.kind === 'not run')(
  titled('a PostgreSQL server that cannot be used', outcome.kind === 'not run' ? outcome.reason : null),
  () => {
    if (outcome.kind === 'not run') return
    const { url, control } = outcome.store
    afterAll(() => outcome.store.dispose())

    it('without tables names the command that makes them', async () => {
      const locks = await connect(`${url}?tablePrefix=nowhere_`)
      await expect(locks.mutex('a').acquire()).rejects.toThrow(/holdfast migrate/)
      await locks.close()
    })

    it('takes no prefix that is not an identifier', async () => {
      for (const prefix of ['a b', 'a"b', "a'b", 'a;b', 'A', '', 'a.b.c', 'é', '1a', 'x'.repeat(60)]) {
        await expect(connect(`${url}?tablePrefix=${encodeURIComponent(prefix)}`)).rejects.toThrow(
          InvalidInputError,
        )
      }
    })

    it('that nobody answers for is told as not reached', async () => {
      await expect(connect('postgres://postgres@127.0.0.1:1/postgres')).rejects.toThrow(
        BackendUnavailableError,
      )
    })

    it('without the database is refused', async () => {
      await expect(connect(url.replace(/postgres$/, 'nosuch'))).rejects.toThrow(UnsupportedError)
    })

    it('refuses a pool at another isolation level', async () => {
      const pool = new pg.Pool({
        connectionString: url,
        options: '-c default_transaction_isolation=serializable',
      })
      await expect(createLocks(postgresBackend({ pool }))).rejects.toThrow(/read committed/)
      await pool.end()
    })

    it('that takes no writes for a while is waited for', async () => {
      const locks = await connect(url)
      await locks.migrate()
      await control.query('ALTER SYSTEM SET default_transaction_read_only = on')
      await control.query('SELECT pg_reload_conf()')
      const waiting = locks.mutex('later').acquire({ waitMs: 60_000 })
      await new Promise((resolve) => setTimeout(resolve, 500))
      await control.query('ALTER SYSTEM RESET default_transaction_read_only')
      await control.query('SELECT pg_reload_conf()')
      const hold = await waiting
      expect(await hold.release()).toBe('released')
      await locks.close()
    })

    it('keeps a short lock_timeout of a pool out of the way', async () => {
      const pool = new pg.Pool({ connectionString: url, max: 12, options: '-c lock_timeout=1ms' })
      const clients = await Promise.all(
        Array.from({ length: 4 }, () => createLocks(postgresBackend({ pool, wake: 'poll' }))),
      )
      await clients[0]?.migrate()
      let inside = 0
      const work = clients.flatMap((locks) =>
        Array.from({ length: 20 }, () =>
          locks.mutex('crowded').run(async () => {
            inside += 1
            expect(inside).toBe(1)
            await Promise.resolve()
            inside -= 1
          }),
        ),
      )
      await Promise.all(work)
      for (const locks of clients) await locks.close()
      await pool.end()
    })
  },
)
