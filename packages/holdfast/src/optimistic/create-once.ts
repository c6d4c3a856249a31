import { InvalidInputError, SerializationError, UnsupportedError } from '../core/errors.js'
import { checkKeys } from '../core/options.js'
import { entriesOf, insertClause, keyClause, type RowKey } from '../tables/clauses.js'
import type { Dialect, SqlClient } from '../tables/clients.js'
import { type Database, databaseOf, type Row } from '../tables/database.js'
import { mysqlErrno, rowMissing, sqlState } from '../tables/errors.js'
import { checkTable } from '../tables/identifiers.js'
import { type SqlValue, Statement } from '../tables/statement.js'
import { requireTransaction } from '../tables/transaction.js'
import { hasUniqueIndex } from './unique-index.js'

export interface CreateOnceOptions {
  /** A row that is there already, such as the cart or the user of an order. Those who create for one parent take turns. */
  readonly parent: { readonly table: string; readonly key: RowKey }
  readonly insert: { readonly table: string; readonly values: Readonly<Record<string, SqlValue>> }
  /** The columns of the unique index that decides, such as `['order_no']`. `insert.values` must have them. */
  readonly unique: readonly string[]
  readonly dialect?: Dialect
}

export interface CreatedOnce<R extends Row = Row> {
  /** false: it was there before, and `row` is what was found. */
  readonly created: boolean
  readonly row: R
}

const DUPLICATE = 1062

/**
 * Inserts a row that must exist only once, inside the caller's transaction, and gives it back, or the one that was there
 * before. The unique index is the truth. The lock on the parent only keeps rivals from colliding, and it is taken on a
 * row that exists: `RowMissingError` if it does not, because a lock on a gap stops others from inserting anything there.
 *
 * It neither begins nor commits. Run the whole transaction under `retryOptimistic`; in SQLite begin it with BEGIN
 * IMMEDIATE.
 */
export async function createOnce<R extends Row = Row>(
  tx: SqlClient,
  options: CreateOnceOptions,
): Promise<CreatedOnce<R>> {
  checkKeys(options, ['parent', 'insert', 'unique', 'dialect'])
  checkKeys(options.parent, ['table', 'key'], 'parent')
  checkKeys(options.insert, ['table', 'values'], 'insert')
  const database = databaseOf(tx, options.dialect)
  const { parent, insert } = options
  const unique = uniqueKey(options)
  // What would be refused anyway shall be refused before anything is locked.
  checkTable(parent.table, 'parent.table')
  checkTable(insert.table, 'insert.table')
  keyClause(new Statement(database.dialect), parent.key, 'parent.key')
  insertClause(new Statement(database.dialect), insert.values, 'insert.values')
  await requireTransaction(tx, database)
  await lockParent(database, parent)
  const outcome =
    database.dialect === 'mysql'
      ? await insertPlainly(database, insert, unique)
      : await insertUnlessThere(database, insert, unique)
  return outcome as CreatedOnce<R>
}

/** The values of the unique columns. NULL is never a duplicate of NULL, so with it nothing would be unique. */
function uniqueKey({ unique, insert }: CreateOnceOptions): RowKey {
  if (!Array.isArray(unique) || unique.length === 0) {
    throw new InvalidInputError('unique', 'an array with at least one column', unique)
  }
  const values = new Map(entriesOf(insert.values, 'insert.values', 1))
  return Object.fromEntries(
    unique.map((column: string) => {
      const value = values.get(column)
      if (value !== undefined && value !== null) return [column, value as Exclude<SqlValue, null>]
      throw new InvalidInputError('unique', 'columns that `insert.values` has a value for', column)
    }),
  )
}

async function lockParent(database: Database, parent: CreateOnceOptions['parent']): Promise<void> {
  const select = async (lock: string): Promise<void> => {
    const statement = new Statement(database.dialect)
    const where = keyClause(statement, parent.key, 'parent.key')
    const text = `SELECT 1 AS found FROM ${statement.table(parent.table)} WHERE ${where}${lock}`
    const rows = await database.rows(text, statement.values)
    if (rows.length === 0) throw rowMissing(parent.table, database.dialect)
  }
  // InnoDB would lock the gap where the row is missing, so it is looked for without a lock first.
  if (database.dialect !== 'postgres') await select('')
  if (database.dialect !== 'sqlite') await select(' FOR UPDATE')
}

/** In PostgreSQL a duplicate that is an error would end the transaction. */
async function insertUnlessThere(
  database: Database,
  { table, values }: CreateOnceOptions['insert'],
  unique: RowKey,
): Promise<CreatedOnce> {
  const statement = new Statement(database.dialect)
  const target = statement.table(table)
  const columns = Object.keys(unique).map((column) => statement.column(column, 'unique'))
  const inserted = insertClause(statement, values, 'insert.values')
  const text =
    `INSERT INTO ${target} ${inserted} ` + `ON CONFLICT (${columns.join(', ')}) DO NOTHING RETURNING *`
  try {
    const [row] = await database.writeReturning({ table: target, text, values: statement.values })
    if (row !== undefined) return { created: true, row }
  } catch (error) {
    const isWithoutIndex =
      sqlState(error) === '42P10' ||
      (database.dialect === 'sqlite' &&
        error instanceof Error &&
        error.message.includes('ON CONFLICT clause'))
    throw isWithoutIndex ? withoutIndex(table, unique, database.dialect, error) : error
  }
  const found = await find(database, table, unique, '')
  if (found !== null) return { created: false, row: found }
  throw new SerializationError(
    `A row of \`${table}\` with this key was there, and is gone again. Run the transaction again.`,
    { resource: table, backend: database.dialect },
  )
}

/** After a duplicate only the statement is undone, and the transaction goes on. */
async function insertPlainly(
  database: Database,
  { table, values }: CreateOnceOptions['insert'],
  unique: RowKey,
): Promise<CreatedOnce> {
  if (!(await hasUniqueIndex(database, table, Object.keys(unique)))) {
    throw withoutIndex(table, unique, database.dialect)
  }
  const statement = new Statement(database.dialect)
  const inserted = insertClause(statement, values, 'insert.values')
  try {
    const target = statement.table(table)
    const text = `INSERT INTO ${target} ${inserted}`
    await database.write({ table: target, text, values: statement.values })
  } catch (error) {
    if (mysqlErrno(error) !== DUPLICATE) throw error
    // The snapshot of the transaction may be older than the row, so only a locking read is sure to see it.
    const row = await find(database, table, unique, ' LOCK IN SHARE MODE')
    if (row !== null) return { created: false, row }
    // It was another unique index of the table.
    throw error
  }
  const row = await find(database, table, unique, '')
  if (row !== null) return { created: true, row }
  throw new UnsupportedError(
    `The row was inserted into \`${table}\` with another key than the given one: the column cuts it off, or a trigger ` +
      'changes it. Roll back.',
    { resource: table, backend: database.dialect },
  )
}

async function find(database: Database, table: string, unique: RowKey, lock: string): Promise<Row | null> {
  const statement = new Statement(database.dialect)
  const where = keyClause(statement, unique, 'unique')
  const text = `SELECT * FROM ${statement.table(table)} WHERE ${where}${lock}`
  const [row] = await database.rows(text, statement.values, 'of the caller')
  return row ?? null
}

function withoutIndex(table: string, unique: RowKey, dialect: Dialect, cause?: unknown): UnsupportedError {
  return new UnsupportedError(
    `\`${table}\` has no unique index on exactly ${Object.keys(unique).join(', ')}, so nothing keeps a second row out.`,
    { resource: table, backend: dialect, cause },
  )
}
