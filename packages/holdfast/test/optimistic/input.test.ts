/** What is refused before anything is asked of a database: none of these clients would answer. */

import { describe, expect, it } from 'vitest'
import { InvalidInputError } from '../../src/core/errors.js'
import { fenceTrigger, fenceWhere, guardedUpdate, guardedUpsert } from '../../src/fencing.js'
import {
  createOnce,
  readTimestamp,
  type SqlClient,
  timestampExpression,
  updateByTimestamp,
  updateVersioned,
  updateWhere,
} from '../../src/optimistic.js'
import { errorOf, PLANTED } from '../support/sql-stores.js'

const never = (): never => {
  throw new Error('It was asked.')
}
const CLIENTS: Readonly<Record<string, SqlClient>> = {
  postgres: { query: never },
  mysql: { execute: never },
  sqlite: { prepare: never, exec: never, close: never },
}

const NAMES: readonly unknown[] = [
  ...PLANTED,
  '',
  ' items',
  'items ',
  'items;',
  'items--',
  'it"ems',
  'it`ems',
  'ite\u0000ms',
  'tischlänge',
  '1items',
  'a'.repeat(64),
  'items\n',
  'select 1',
  '(items)',
  '$1',
  '?',
]
const TABLES: readonly unknown[] = [...NAMES, 'a.b.c', '.a', 'a.', 'a..b', 5, null, undefined, {}, ['items']]

const TOKEN = '2026-01-01 00:00:00.000000'

describe.each(Object.entries(CLIENTS))('%s', (_, db) => {
  const key = { id: 1 }
  const set = { note: 'x' }
  const calls = (table: string, column: string): readonly Promise<unknown>[] => [
    updateVersioned(db, { table, key, version: 1, set, versionColumn: column }),
    updateVersioned(db, { table, key, version: 1, set: { [column]: 1 } }),
    updateVersioned(db, { table, key: { [column]: 1 }, version: 1, set }),
    updateByTimestamp(db, { table, key, token: TOKEN, set, column }),
    updateByTimestamp(db, { table, key, token: TOKEN, set: { [column]: 1 } }),
    updateByTimestamp(db, { table, key: { [column]: 1 }, token: TOKEN, set }),
    readTimestamp(db, { table, key, column }),
    timestampExpression(db, { table, column }),
    updateWhere(db, { table, key, where: { [column]: 1 }, set }),
    updateWhere(db, { table, key, where: { stock: 1 }, set: { [column]: { increment: 1 } } }),
    updateWhere(db, { table, key: { [column]: 1 }, where: { stock: 1 }, set }),
    guardedUpdate(db, { table, key, fence: 1n, set, column }),
    guardedUpdate(db, { table, key, fence: 1n, set: { [column]: 1 } }),
    guardedUpsert(db, { table, key, fence: 1n, set, column }),
    guardedUpsert(db, { table, key: { [column]: 1 }, fence: 1n, set }),
    createOnce(db, { parent: { table, key }, insert: { table, values: { [column]: 1 } }, unique: [column] }),
    createOnce(db, {
      parent: { table, key: { [column]: 1 } },
      insert: { table, values: key },
      unique: ['id'],
    }),
  ]

  it.each(TABLES)('refuses %j as a table', async (table) => {
    for (const call of calls(table as string, 'good')) {
      expect(await errorOf(call)).toBeInstanceOf(InvalidInputError)
    }
  })

  it.each([...NAMES, 'a.b'])('refuses %j as a column', async (column) => {
    for (const call of calls('items', column as string)) {
      expect(await errorOf(call)).toBeInstanceOf(InvalidInputError)
    }
  })

  it.each([
    {},
    null,
    undefined,
    [],
    'id = 1',
    { id: null },
    { id: undefined },
    { id: {} },
    { id: Number.NaN },
  ])('refuses %j as a key', async (bad) => {
    const all = [
      updateVersioned(db, { table: 'items', key: bad as never, version: 1, set }),
      updateByTimestamp(db, { table: 'items', key: bad as never, token: TOKEN, set }),
      updateWhere(db, { table: 'items', key: bad as never, where: { stock: 1 }, set }),
      guardedUpdate(db, { table: 'items', key: bad as never, fence: 1n, set }),
      guardedUpsert(db, { table: 'items', key: bad as never, fence: 1n, set }),
    ]
    for (const call of all) expect(await errorOf(call)).toBeInstanceOf(InvalidInputError)
  })

  it.each([
    { stock: { '>=': "1'; DROP TABLE items" } },
    { stock: { '>=': '0x10' } },
    { stock: { '>=': null } },
    { stock: { 'OR 1=1 --': 1 } },
    { stock: { like: '%' } },
    { stock: {} },
    {},
    'stock >= 1',
    ['stock >= 1'],
    { stock: ['>=', 1] },
    { stock: () => 1 },
    { stock: '\ud800' },
  ])('refuses %j as a condition', async (where) => {
    const call = updateWhere(db, { table: 'items', key, where: where as never, set })
    expect(await errorOf(call)).toBeInstanceOf(InvalidInputError)
  })

  it.each([
    { stock: { increment: '1; DROP TABLE items' } },
    { stock: { increment: Number.POSITIVE_INFINITY } },
    { stock: { increment: null } },
    { stock: { increment: 1, decrement: 1 } },
    { stock: { raw: 'stock + 1' } },
    { stock: undefined },
    { stock: Symbol('x') },
    { stock: new Date(Number.NaN) },
    { stock: new Map() },
    { stock: 2n ** 64n },
    'stock = 1',
  ])('refuses %o as a change', async (change) => {
    const call = updateWhere(db, { table: 'items', key, where: { stock: 1 }, set: change as never })
    expect(await errorOf(call)).toBeInstanceOf(InvalidInputError)
  })

  it.each([-1, 1.5, 2 ** 53, '', '1 OR 1=1', '-1', 2n ** 63n - 1n, null, Number.NaN])(
    'refuses %o as a version',
    async (version) => {
      const call = updateVersioned(db, { table: 'items', key, version: version as number, set })
      expect(await errorOf(call)).toMatchObject({ code: 'INVALID_INPUT', option: 'version' })
    },
  )

  it.each([-1n, 2n ** 63n, 1, '1', null])('refuses %o as a fence', async (fence) => {
    const bad = fence as bigint
    for (const call of [
      guardedUpdate(db, { table: 'items', key, fence: bad }),
      guardedUpsert(db, { table: 'items', key, fence: bad }),
    ]) {
      expect(await errorOf(call)).toMatchObject({ code: 'INVALID_INPUT', option: 'fence' })
    }
    expect(() => fenceWhere({ dialect: 'postgres', fence: bad })).toThrow(InvalidInputError)
  })

  it('refuses options that it does not know', async () => {
    const call = updateVersioned(db, { table: 'items', key, version: 1, set, where: 'x' } as never)
    expect(await errorOf(call)).toBeInstanceOf(InvalidInputError)
  })
})

describe('the client', () => {
  const callback = { execute: never, query: never, promise: never }
  const old = { query: never, escapeId: never }
  it.each([
    null,
    undefined,
    'postgres://',
    5,
    {},
    { query: 'x' },
    () => {},
    callback,
    old,
    { prepare: never },
  ])('%o is refused', async (db) => {
    const call = updateVersioned(db as never, { table: 'items', key: { id: 1 }, version: 1, set: {} })
    expect(await errorOf(call)).toMatchObject({ code: 'INVALID_INPUT', option: 'db' })
  })

  it.each(['postgres', 'mysql', 'sqlite', 'oracle', '', null])('must fit the dialect %j', async (dialect) => {
    const options = { table: 'items', key: { id: 1 }, version: 1, set: {}, dialect: dialect as 'mysql' }
    expect(await errorOf(updateVersioned({} as never, options))).toBeInstanceOf(InvalidInputError)
  })

  it('that answers in another way is refused', async () => {
    const options = { table: 'items', key: { id: 1 }, version: 1, set: {} }
    for (const answer of [undefined, null, [], {}, { affectedRows: 1 }, 'OK']) {
      const reply = async (): Promise<never> => answer as never
      for (const db of [{ query: reply }, { execute: reply }]) {
        expect(await errorOf(updateVersioned(db, options))).toMatchObject({ option: 'db' })
      }
    }
  })
})

describe('the trigger', () => {
  it.each(['postgres', 'mysql', 'sqlite'] as const)('has only plain names in %s', (dialect) => {
    for (const name of NAMES as readonly string[]) {
      expect(() => fenceTrigger({ dialect, table: name })).toThrow(InvalidInputError)
      expect(() => fenceTrigger({ dialect, table: 'items', column: name })).toThrow(InvalidInputError)
      expect(() => fenceTrigger({ dialect, table: 'items', name })).toThrow(InvalidInputError)
      expect(() => fenceWhere({ dialect, fence: 1n, column: name })).toThrow(InvalidInputError)
    }
  })
})
