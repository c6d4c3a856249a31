/** The guard at the table itself, for writers that nobody can make use the condition. */

import { InvalidInputError, StaleFenceError } from '../core/errors.js'
import { checkFence, checkKeys } from '../core/options.js'
import { checkDialect, type Dialect } from '../tables/clients.js'
import { checkColumn, checkTable, columnSql, tableSql } from '../tables/identifiers.js'

export interface FenceTriggerOptions {
  readonly dialect: Dialect
  readonly table: string
  /** Default `fence`. */
  readonly column?: string
  /** The name of the trigger, and in PostgreSQL of its function. Default: that of the table with `_fence_guard` behind it. */
  readonly name?: string
}

/** Statements, to be run one by one, by a user who may change the schema. */
export interface FenceTrigger {
  readonly create: readonly string[]
  readonly drop: readonly string[]
}

/** Holdfast's own SQLSTATE for a stale fence, in PostgreSQL and in MySQL and MariaDB. */
const STALE_STATE = 'HF002'
/** What the message begins with. SQLite takes a fixed text only, so there the numbers are not in it. */
const STALE_TEXT = 'holdfast: stale fence'
const NUMBERS = /holdfast: stale fence (\d{1,19}|none), highest (\d{1,19})/

/**
 * The SQL of a trigger that refuses every UPDATE which would lower the fence of a row, or remove it. It cannot refuse an
 * UPDATE that leaves the fence alone, so writers must still set it. Whatever deletes and inserts (REPLACE, DELETE) goes
 * past it.
 */
export function fenceTrigger(options: FenceTriggerOptions): FenceTrigger {
  checkKeys(options, ['dialect', 'table', 'column', 'name'])
  const dialect = checkDialect(options.dialect)
  const { schema, name: table } = checkTable(options.table)
  const column = columnSql(dialect, checkColumn(options.column ?? 'fence'))
  const name = checkColumn(options.name ?? `${table}_fence_guard`, 'name')
  const parts = {
    target: tableSql(dialect, options.table),
    // PostgreSQL keeps triggers with their table, the others in the schema of it.
    trigger: columnSql(dialect, name),
    inSchema: tableSql(dialect, schema === null ? name : `${schema}.${name}`),
    stale: `OLD.${column} IS NOT NULL AND (NEW.${column} IS NULL OR NEW.${column} < OLD.${column})`,
    column,
  }
  switch (dialect) {
    case 'postgres':
      return pgTrigger(parts)
    case 'mysql':
      return mysqlTrigger(parts)
    case 'sqlite':
      return sqliteTrigger(parts, tableSql(dialect, table))
  }
}

interface Parts {
  readonly target: string
  readonly trigger: string
  readonly inSchema: string
  readonly stale: string
  readonly column: string
}

function pgTrigger({ target, trigger, inSchema, stale, column }: Parts): FenceTrigger {
  const body =
    `BEGIN IF ${stale} THEN RAISE EXCEPTION '${STALE_TEXT} %, highest %', COALESCE(NEW.${column}::text, 'none'), ` +
    `OLD.${column} USING ERRCODE = '${STALE_STATE}'; END IF; RETURN NEW; END`
  return {
    create: [
      `CREATE OR REPLACE FUNCTION ${inSchema}() RETURNS trigger LANGUAGE plpgsql AS $holdfast$ ${body} $holdfast$`,
      `CREATE TRIGGER ${trigger} BEFORE UPDATE ON ${target} FOR EACH ROW EXECUTE FUNCTION ${inSchema}()`,
    ],
    drop: [`DROP TRIGGER IF EXISTS ${trigger} ON ${target}`, `DROP FUNCTION IF EXISTS ${inSchema}()`],
  }
}

function mysqlTrigger({ target, inSchema, stale, column }: Parts): FenceTrigger {
  // SIGNAL takes a variable, and no expression.
  const body =
    `BEGIN DECLARE refusal VARCHAR(128); IF ${stale} THEN SET refusal = CONCAT('${STALE_TEXT} ', ` +
    `COALESCE(CAST(NEW.${column} AS CHAR), 'none'), ', highest ', OLD.${column}); ` +
    `SIGNAL SQLSTATE '${STALE_STATE}' SET MESSAGE_TEXT = refusal; END IF; END`
  return {
    create: [`CREATE TRIGGER ${inSchema} BEFORE UPDATE ON ${target} FOR EACH ROW ${body}`],
    drop: [`DROP TRIGGER IF EXISTS ${inSchema}`],
  }
}

/** The table of a trigger has no schema there: it is in that of the trigger. */
function sqliteTrigger({ inSchema, stale }: Parts, table: string): FenceTrigger {
  const body = `BEGIN SELECT RAISE(ABORT, '${STALE_TEXT}'); END`
  return {
    create: [`CREATE TRIGGER ${inSchema} BEFORE UPDATE ON ${table} FOR EACH ROW WHEN ${stale} ${body}`],
    drop: [`DROP TRIGGER IF EXISTS ${inSchema}`],
  }
}

/**
 * What to throw for an error of a driver: `StaleFenceError` if it came from the trigger, otherwise the error as it is.
 * SQLite does not say which fence was higher; the least that it can have been is given then.
 */
export function fenceError(
  error: unknown,
  options: { readonly fence: bigint; readonly table?: string },
): unknown {
  checkKeys(options, ['fence', 'table'])
  const { fence, table = null } = options
  checkFence(fence)
  if (table !== null && typeof table !== 'string') throw new InvalidInputError('table', 'a text', table)
  if (!isRefusal(error)) return error
  const numbers = NUMBERS.exec(error.message)
  const highest = numbers === null ? fence + 1n : BigInt(numbers[2] ?? 0)
  return new StaleFenceError(fence, highest, { resource: table, cause: error })
}

function isRefusal(error: unknown): error is Error {
  if (!(error instanceof Error) || !error.message.includes(STALE_TEXT)) return false
  const states: readonly unknown[] = [Reflect.get(error, 'code'), Reflect.get(error, 'sqlState')]
  return states.includes(STALE_STATE) || error.message.endsWith(STALE_TEXT)
}
