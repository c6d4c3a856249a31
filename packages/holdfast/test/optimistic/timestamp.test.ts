import { expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import {
  InvalidInputError,
  RowMissingError,
  StaleVersionError,
  UnsupportedError,
} from '../../src/core/errors.js'
import {
  type MysqlExecutor,
  type PgQueryable,
  readTimestamp,
  type SqlClient,
  timestampExpression,
  updateByTimestamp,
} from '../../src/optimistic.js'
import { describeSql, errorOf, type SqlStore } from '../support/sql-stores.js'

const key = { id: 1 }

/** The types that keep microseconds. */
const FINE = {
  postgres: ['TIMESTAMP', 'TIMESTAMPTZ', 'TIMESTAMPTZ(6)'],
  mysql: ['DATETIME(6)', 'TIMESTAMP(6)'],
  sqlite: ['TEXT', 'DATETIME'],
}

const COARSE = {
  postgres: ['TIMESTAMP(3)', 'TIMESTAMPTZ(0)', 'TIMESTAMP(5)', 'DATE', 'TEXT'],
  mysql: ['DATETIME', 'DATETIME(0)', 'DATETIME(3)', 'TIMESTAMP', 'TIMESTAMP(5)', 'DATE', 'BIGINT'],
  sqlite: [],
}

/** So far ahead that the clock has no say, but not further than a TIMESTAMP reaches. */
const AHEAD = '2037-06-01 12:00:00.345001'
const SECONDS = '2026-01-01 00:00:00'

let tables = 0

/** A table of its own for each test, because what was found out about one is remembered. */
async function makeNotes(store: SqlStore, type: string, stamp: string = AHEAD): Promise<string> {
  tables += 1
  const table = `notes_${tables}`
  await store.run(`CREATE TABLE ${table} (id INTEGER PRIMARY KEY, text VARCHAR(50), updated_at ${type})`)
  await fill(store, table, type === 'BIGINT' ? '5' : stamp)
  return table
}

async function fill(store: SqlStore, table: string, stamp: string): Promise<void> {
  await store.run(`INSERT INTO ${table} VALUES (1, 'first', '${stamp}')`)
}

/** A zone of which the summer time of 2026 ends as in Europe. */
function zoneTables(id: number, name: string, state: 'made' | 'removed' = 'made'): readonly string[] {
  const remove = ['_name', '', '_transition', '_transition_type'].map(
    (each) => `DELETE FROM mysql.time_zone${each} WHERE Time_zone_id = ${id}`,
  )
  if (state === 'removed') return remove
  return [
    ...remove,
    `INSERT INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES (${id}, 'N')`,
    `INSERT INTO mysql.time_zone_name VALUES ('${name}', ${id})`,
    `INSERT INTO mysql.time_zone_transition_type VALUES (${id}, 0, 3600, 0, 'CET'), (${id}, 1, 7200, 1, 'CEST')`,
    `INSERT INTO mysql.time_zone_transition VALUES (${id}, 1774746000, 1), (${id}, 1792890000, 0)`,
  ]
}

await describeSql('an update by timestamp', (store) => {
  let table = ''
  const fine = FINE[store.dialect][0] as string
  const write = (token: string, text = 'mine', db: SqlClient = store.db): Promise<string> =>
    updateByTimestamp(db, { table, key, token, set: { text } })
  const text = (): Promise<string | null> => store.value(`SELECT text FROM ${table}`)

  it.each(FINE[store.dialect])('45. %s: one of two writers in the same microsecond wins', async (type) => {
    table = await makeNotes(store, type)
    const token = await readTimestamp(store.db, { table, key })
    expect(token.slice(-7)).toBe('.345001')
    const outcomes = await Promise.allSettled(['a', 'b', 'c', 'd'].map((name) => write(token, name)))
    const won = outcomes.filter((outcome) => outcome.status === 'fulfilled')
    expect(won).toHaveLength(1)
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(StaleVersionError)
    }
    // The clock is behind, so it is the old value and a microsecond.
    const next = won[0]?.value
    expect(next).toBe(`${token.slice(0, -7)}.345002`)
    expect(await readTimestamp(store.db, { table, key })).toBe(next)
    expect(await text()).toMatch(/^[abcd]$/)
    expect(await write(next as string)).toBe(`${token.slice(0, -7)}.345003`)
  })

  it.each(FINE[store.dialect])(
    '%s: gives the time of the database, and changes even when it stands',
    async (type) => {
      table = await makeNotes(store, type, '2020-01-01 00:00:00.000000')
      const first = await write(await readTimestamp(store.db, { table, key }))
      expect(first > '2024').toBe(true)
      const second = await write(first)
      expect(second > first).toBe(true)
      expect(await readTimestamp(store.db, { table, key })).toBe(second)
      expect(await errorOf(write(first))).toBeInstanceOf(StaleVersionError)
    },
  )

  it('45. carries over into the next second', async () => {
    table = await makeNotes(store, fine, '2037-12-31 23:59:59.999999')
    expect(await write('2037-12-31 23:59:59.999999')).toBe('2038-01-01 00:00:00.000000')
  })

  it('tells a missing row, and refuses a row without a timestamp', async () => {
    table = await makeNotes(store, `${FINE[store.dialect][0]} NULL`)
    const missing = updateByTimestamp(store.db, { table, key: { id: 2 }, token: AHEAD, set: {} })
    expect(await errorOf(missing)).toBeInstanceOf(RowMissingError)
    await store.run(`UPDATE ${table} SET updated_at = NULL`)
    expect(await errorOf(write(AHEAD))).toBeInstanceOf(UnsupportedError)
    expect(await errorOf(readTimestamp(store.db, { table, key }))).toBeInstanceOf(UnsupportedError)
  })

  it('45. refuses a Date and everything else that has lost its microseconds', async () => {
    table = await makeNotes(store, fine)
    const date = new Date(0)
    for (const token of [
      date,
      date.toISOString(),
      '2037-06-01 12:00:00.345',
      '2037-06-01 12:00:00',
      5,
      null,
      "'",
    ]) {
      expect(await errorOf(write(token as string))).toBeInstanceOf(InvalidInputError)
    }
    expect(await text()).toBe('first')
  })

  it.skipIf(store.dialect === 'sqlite').each(COARSE[store.dialect])(
    titled(
      '45. %s is refused',
      store.dialect === 'sqlite' ? 'does not apply to SQLite, which has no types of columns' : null,
    ),
    async (type) => {
      table = await makeNotes(store, type, SECONDS)
      expect(await errorOf(write(`${SECONDS}.000000`))).toBeInstanceOf(UnsupportedError)
      expect(await errorOf(readTimestamp(store.db, { table, key }))).toBeInstanceOf(UnsupportedError)
      expect(await text()).toBe('first')
      // What was refused is not remembered: once the column is right, it is taken.
      await store.run(`DROP TABLE ${table}`)
      await store.run(`CREATE TABLE ${table} (id INTEGER PRIMARY KEY, text VARCHAR(50), updated_at ${fine})`)
      await fill(store, table, AHEAD)
      await expect(write(AHEAD)).resolves.toContain('.345002')
    },
  )

  it.skipIf(store.dialect === 'sqlite')(
    titled(
      'looks the column up once, and not for each call',
      store.dialect === 'sqlite' ? 'does not apply to SQLite, which has no types of columns' : null,
    ),
    async () => {
      table = await makeNotes(store, fine)
      const { client, texts } = counting(store)
      const dialect = store.dialect
      let token = await readTimestamp(client, { table, key, dialect })
      const racing = Array.from({ length: 5 }, () => readTimestamp(client, { table, key, dialect }))
      await Promise.all(racing)
      for (let i = 0; i < 3; i += 1)
        token = await updateByTimestamp(client, { table, key, token, set: {}, dialect })
      expect(texts.filter((sql) => /pg_attribute|information_schema/.test(sql))).toHaveLength(1)
      expect(texts).toHaveLength(1 + 6 + 3)
    },
  )

  it.skipIf(store.dialect === 'sqlite')(
    titled(
      'is the same token in sessions of different time zones',
      store.dialect === 'sqlite' ? 'does not apply to SQLite, which has no types of columns' : null,
    ),
    async () => {
      table = await makeNotes(store, FINE[store.dialect][1] as string)
      const [there, here] = [await store.connection(), await store.connection()]
      try {
        const zone = store.dialect === 'mysql' ? ['time_zone', '+05:30'] : ['TIME ZONE', 'Asia/Kolkata']
        await there.run(`SET ${zone[0]}${store.dialect === 'mysql' ? ' =' : ''} '${zone[1]}'`)
        const token = await readTimestamp(there.client, { table, key })
        expect(await readTimestamp(here.client, { table, key })).toBe(token)
        const next = await write(token, 'here', here.client)
        expect(await errorOf(write(token, 'there', there.client))).toBeInstanceOf(StaleVersionError)
        await write(next, 'there', there.client)
      } finally {
        await Promise.all([there.close(), here.close()])
      }
    },
  )

  it.skipIf(store.dialect !== 'mysql')(
    titled(
      'gives the timestamp that is stored in the hour that a time zone has twice',
      store.dialect === 'mysql' ? null : 'does not apply: only MySQL has a type that depends on the zone',
    ),
    async () => {
      table = await makeNotes(store, 'TIMESTAMP(6)', '2026-01-01 00:00:00.000000')
      // 01:30 in UTC, which is 02:30 for the second time. Servers come without named zones, so it makes one.
      const twice = Date.UTC(2026, 9, 25, 1, 30) / 1_000
      const connection = await store.connection()
      const { client } = connection
      try {
        for (const statement of zoneTables(9_001, 'Test/Twice')) await connection.run(statement)
        await connection.run("SET time_zone = 'Test/Twice'")
        let token = await readTimestamp(client, { table, key })
        for (const second of [twice, twice + 60, twice + 120]) {
          await connection.run(`SET timestamp = ${second}`)
          const next = await write(token, `at ${second}`, client)
          expect(next).toBe(`${new Date(second * 1_000).toISOString().slice(0, 19).replace('T', ' ')}.000000`)
          expect(await readTimestamp(client, { table, key })).toBe(next)
          token = next
        }
        // And where the clock is behind the timestamp.
        await connection.run(`SET timestamp = ${twice}`)
        const last = await write(token, 'behind', client)
        expect(last).toBe(`${token.slice(0, -1)}1`)
        expect(await readTimestamp(store.db, { table, key })).toBe(last)
        expect(await errorOf(write(token, 'stale', client))).toBeInstanceOf(StaleVersionError)
      } finally {
        for (const statement of zoneTables(9_001, 'Test/Twice', 'removed')) await connection.run(statement)
        await connection.close()
      }
    },
  )

  it('gives an expression for a SELECT that reads row and token together', async () => {
    table = await makeNotes(store, FINE[store.dialect][1] as string)
    const expression = await timestampExpression(store.db, { table })
    const token = await store.value(`SELECT ${expression} FROM ${table} WHERE id = 1`)
    expect(token).toBe(await readTimestamp(store.db, { table, key }))
  })
})

await describeSql(
  'an update by timestamp, as SQLite has it',
  (store) => {
    let table = ''
    const write = (token: string): Promise<string> =>
      updateByTimestamp(store.db, { table, key, token, set: {} })

    it.each(['2026-01-01 00:00:00.123', '2026-01-01 00:00:00', '2026-01-01T00:00:00.123Z', '1767225600'])(
      'refuses a row with %s',
      async (stamp) => {
        table = await makeNotes(store, 'TEXT', stamp)
        expect(await errorOf(write('2026-01-01 00:00:00.123000'))).toBeInstanceOf(UnsupportedError)
        expect(await errorOf(readTimestamp(store.db, { table, key }))).toBeInstanceOf(UnsupportedError)
      },
    )

    it('keeps the form of ISO 8601', async () => {
      table = await makeNotes(store, 'TEXT', '2037-01-01T00:00:00.999999Z')
      expect(await write('2037-01-01T00:00:00.999999Z')).toBe('2037-01-01T00:00:01.000000Z')
      table = await makeNotes(store, 'TEXT', '2020-01-01T00:00:00.999999Z')
      expect(await write('2020-01-01T00:00:00.999999Z')).toMatch(/^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
    })

    it('refuses a day that does not exist', async () => {
      expect(await errorOf(write('2026-13-41 00:00:00.000000'))).toBeInstanceOf(InvalidInputError)
    })
  },
  ['sqlite'],
)

/** The client with a count of what it was asked. */
function counting(store: SqlStore): { readonly client: SqlClient; readonly texts: string[] } {
  const texts: string[] = []
  if (store.dialect === 'postgres') {
    const inner = store.db as PgQueryable
    const query: PgQueryable['query'] = (sql, values) => {
      texts.push(sql)
      return inner.query(sql, values)
    }
    return { client: { query }, texts }
  }
  const inner = store.db as MysqlExecutor
  const execute: MysqlExecutor['execute'] = (statement) => {
    texts.push(statement.sql)
    return inner.execute(statement)
  }
  return { client: { execute }, texts }
}
