/** The tables, and what happens to them when a connection opens. */

import { quote, UnsupportedError } from '../../core/errors.js'
import type { SqliteDatabase } from './client.js'
import type { Machine } from './clock.js'
import type { Sql } from './connection.js'
import { rowOf } from './rows.js'

/** "HLDF" in ASCII: tells a database of Holdfast from any other. */
const APPLICATION_ID = 0x484c4446
const SCHEMA_VERSION = 1

/**
 * The rows of a line lie side by side in one tree, and the fence counter is one row beside it: a claim that
 * comes and goes changes three pages. The counter follows the rows by a trigger, which is one statement
 * less. A table with AUTOINCREMENT and two indexes changes seven, and was
 * measured at two thirds of the speed. Times are milliseconds of the machine's monotonic clock in the boot
 * that `meta` names.
 */
const TABLES = `
  CREATE TABLE places (
    resource TEXT NOT NULL,
    place INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    line_limit INTEGER NOT NULL CHECK (line_limit >= 1),
    weight INTEGER NOT NULL CHECK (weight >= 1),
    joined_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    client TEXT NOT NULL,
    note TEXT,
    PRIMARY KEY (resource, place)
  ) WITHOUT ROWID, STRICT;
  CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    fence INTEGER NOT NULL,
    boot TEXT NOT NULL
  ) STRICT;
  CREATE TRIGGER count_place AFTER INSERT ON places BEGIN
    UPDATE meta SET fence = NEW.place WHERE one = 1;
  END;
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${SCHEMA_VERSION};
`

/**
 * How far the fence counter jumps when the machine has booted. With synchronous=NORMAL a power cut may take
 * the last commits back, and the counter with them; but no machine makes four thousand million commits
 * between two checkpoints, so after the jump the counter is certainly above everything it ever gave out.
 * The jump itself is committed with synchronous=FULL before the first fence is given out: lost, it would be
 * made a second time to the same numbers. A million boots fit below the largest safe integer.
 */
const BOOT_JUMP = 2 ** 32

/** In one statement, because another process may make the tables between two. */
const WHOSE = `SELECT (SELECT application_id FROM pragma_application_id) AS application_id,
  (SELECT user_version FROM pragma_user_version) AS user_version,
  (SELECT count(*) FROM sqlite_master) AS tables`
const META = `SELECT fence, boot FROM meta`

/**
 * Refuses a database of another program or of a later Holdfast. It only reads, so what is refused stays
 * untouched. The statement must be the same one on every try: libsql does not reset one that found the file busy
 * until it runs again, and an abandoned one would keep an old view of the file, and every write out.
 */
export function isInitialised(sql: Sql, path: string): boolean {
  const row = rowOf(sql(WHOSE).get(), path, null)
  const applicationId = row.number('application_id')
  const version = row.number('user_version')
  if (applicationId === APPLICATION_ID && version === SCHEMA_VERSION) return true
  if (applicationId === APPLICATION_ID) {
    throw new UnsupportedError(
      `The SQLite database ${quote(path)} has version ${version} of Holdfast's tables, and this Holdfast ` +
        `knows version ${SCHEMA_VERSION} only. Use the same Holdfast in all programs, or another path.`,
      { backend: 'sqlite' },
    )
  }
  if (applicationId === 0 && version === 0 && row.number('tables') === 0) return false
  throw new UnsupportedError(
    `The SQLite database ${quote(path)} belongs to another program. Give Holdfast a file of its own.`,
    { backend: 'sqlite' },
  )
}

/**
 * Runs in one transaction with synchronous=FULL: makes what is missing, and frees everything after a reboot.
 */
export function initialise(database: SqliteDatabase, sql: Sql, path: string, machine: Machine): void {
  if (!isInitialised(sql, path)) {
    database.exec(TABLES)
    sql('INSERT INTO meta (one, fence, boot) VALUES (1, 0, ?)').run(machine.bootId)
    return
  }
  const meta = rowOf(sql(META).get(), path, null)
  if (meta.text('boot') === machine.bootId) return
  const fence = meta.integer('fence', 0, Number.MAX_SAFE_INTEGER - BOOT_JUMP) + BOOT_JUMP
  database.exec('DELETE FROM places')
  sql('UPDATE meta SET fence = ?, boot = ?').run(fence, machine.bootId)
}
