/** The tables, and what happens to them when a connection opens. */

import { quote, UnsupportedError } from '../../core/errors.js'
import type { SqliteDatabase } from './client.js'
import type { Machine } from './clock.js'
import { RowReader } from './rows.js'

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

/**
 * Refuses a database of another program or of a later Holdfast. It only reads, so what is refused stays
 * untouched.
 */
export function isInitialised(database: SqliteDatabase, path: string): boolean {
  const applicationId = pragma(database, path, 'application_id')
  const version = pragma(database, path, 'user_version')
  if (applicationId === APPLICATION_ID && version === SCHEMA_VERSION) return true
  if (applicationId === APPLICATION_ID) {
    throw new UnsupportedError(
      `The SQLite database ${quote(path)} has version ${version} of Holdfast's tables, and this Holdfast ` +
        `knows version ${SCHEMA_VERSION} only. Use the same Holdfast in all programs, or another path.`,
      { backend: 'sqlite' },
    )
  }
  const counted = database.prepare('SELECT count(*) AS count FROM sqlite_master').get()
  const tables = new RowReader(counted, path, null)
  if (applicationId === 0 && version === 0 && tables.number('count') === 0) return false
  throw new UnsupportedError(
    `The SQLite database ${quote(path)} belongs to another program. Give Holdfast a file of its own.`,
    { backend: 'sqlite' },
  )
}

/**
 * Runs in one transaction with synchronous=FULL: makes what is missing, and frees everything after a reboot.
 */
export function initialise(database: SqliteDatabase, path: string, machine: Machine): void {
  if (!isInitialised(database, path)) {
    database.exec(TABLES)
    database.prepare('INSERT INTO meta (one, fence, boot) VALUES (1, 0, ?)').run(machine.bootId)
    return
  }
  const meta = new RowReader(database.prepare('SELECT fence, boot FROM meta').get(), path, null)
  if (meta.text('boot') === machine.bootId) return
  const fence = meta.integer('fence', 0, Number.MAX_SAFE_INTEGER - BOOT_JUMP) + BOOT_JUMP
  database.exec('DELETE FROM places')
  database.prepare('UPDATE meta SET fence = ?, boot = ?').run(fence, machine.bootId)
}

function pragma(database: SqliteDatabase, path: string, name: string): number {
  return new RowReader(database.prepare(`PRAGMA ${name}`).get(), path, null).number(name)
}
