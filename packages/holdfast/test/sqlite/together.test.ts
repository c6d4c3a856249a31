import { describe, expect, it } from 'vitest'
import type { SqliteDatabase, SqliteStatement } from '../../src/backends/sqlite/client.js'
import type { Verdict } from '../../src/core/backend.js'
import { claimOf, NOW_OR_NEVER, openBackend, openRaw, tempPath } from './support.js'

/** A connection that counts its transactions, and cannot add a place to the line of one resource. */
class Watched implements SqliteDatabase {
  commits = 0
  readonly #inner: SqliteDatabase
  readonly #broken: string

  constructor(inner: SqliteDatabase, broken = '') {
    this.#inner = inner
    this.#broken = broken
  }

  exec(sql: string): unknown {
    return this.#inner.exec(sql)
  }

  prepare(sql: string): SqliteStatement {
    const inner = this.#inner.prepare(sql)
    return {
      get: (...params) => inner.get(...params),
      all: (...params) => inner.all(...params),
      run: (...params) => {
        if (sql === 'COMMIT') this.commits += 1
        if (sql.startsWith('INSERT INTO places') && params.includes(this.#broken))
          throw new Error('It broke.')
        return inner.run(...params)
      },
    }
  }

  close(): unknown {
    return this.#inner.close()
  }
}

const names = (count: number): readonly string[] => Array.from({ length: count }, (_, nth) => `name-${nth}`)

const attempt = (backend: Awaited<ReturnType<typeof openBackend>>, resource: string): Promise<Verdict> =>
  backend.attempt(claimOf(resource), NOW_OR_NEVER)

describe('what is written together', () => {
  it('is one transaction, and each is answered for itself', async () => {
    const path = await tempPath()
    const database = new Watched(await openRaw(path))
    const backend = await openBackend({ path, database, together: true })
    const before = database.commits
    const claims = names(40).map((name) => claimOf(name))
    const verdicts = await Promise.all(claims.map((claim) => backend.attempt(claim, NOW_OR_NEVER)))
    expect(verdicts.map(({ kind }) => kind)).toEqual(claims.map(() => 'granted'))
    expect(database.commits - before).toBe(1)
    const again = await Promise.all(names(40).map((name) => attempt(backend, name)))
    expect(again.map(({ kind }) => kind)).toEqual(claims.map(() => 'refused'))
    const releases = await Promise.all(claims.map((claim) => backend.release(claim)))
    expect(releases).toEqual(claims.map(() => 'released'))
    expect(database.commits - before).toBe(3)
  })

  it('is written in the order in which it came', async () => {
    const path = await tempPath()
    const backend = await openBackend({ path, together: true })
    const [first, second] = [claimOf('door'), claimOf('door')]
    expect((await backend.attempt(first, NOW_OR_NEVER)).kind).toBe('granted')
    const [refused, released, next] = await Promise.all([
      attempt(backend, 'door'),
      backend.release(first),
      backend.attempt(second, NOW_OR_NEVER),
    ])
    expect([refused.kind, released, next.kind]).toEqual(['refused', 'released', 'granted'])
  })

  it('is not too much at once', async () => {
    const path = await tempPath()
    const database = new Watched(await openRaw(path))
    const backend = await openBackend({ path, database, together: true })
    const before = database.commits
    await Promise.all(names(200).map((name) => attempt(backend, name)))
    expect(database.commits - before).toBe(4)
  })

  it('does not suffer from what goes wrong with one of it', async () => {
    const path = await tempPath()
    const database = new Watched(await openRaw(path), 'name-3')
    const backend = await openBackend({ path, database, together: true })
    const settled = await Promise.allSettled(names(6).map((name) => attempt(backend, name)))
    expect(settled.map(({ status }) => status)).toEqual(
      names(6).map((name) => (name === 'name-3' ? 'rejected' : 'fulfilled')),
    )
    for (const name of names(6)) {
      const { holders } = await backend.inspect(name)
      expect(holders.length).toBe(name === 'name-3' ? 0 : 1)
    }
  })

  it('is refused when the store closes before its turn', async () => {
    const path = await tempPath()
    const backend = await openBackend({ path, together: true })
    const asked = Promise.allSettled(names(3).map((name) => attempt(backend, name)))
    await backend.close()
    for (const each of await asked) expect(each).toMatchObject({ reason: { code: 'CLOSED' } })
  })

  it('is not asked for unless it is: without it each is a transaction of its own', async () => {
    const path = await tempPath()
    const database = new Watched(await openRaw(path))
    const backend = await openBackend({ path, database })
    const before = database.commits
    await Promise.all(names(5).map((name) => attempt(backend, name)))
    expect(database.commits - before).toBe(5)
    await expect(openBackend({ path, together: 1 as never })).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  })
})
