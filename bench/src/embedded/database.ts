/** The SQLite driver that the library would pick, without the library: what its speed is compared with. */

import Libsql from 'libsql'

export interface BareStatement {
  run(...params: (string | number)[]): unknown
}

export interface BareDatabase {
  exec(sql: string): unknown
  prepare(sql: string): BareStatement
  close(): unknown
}

export type Driver = 'node:sqlite' | 'libsql'

/** Since this version of Node the library uses the driver that is built in. */
const BUILTIN_SINCE = 24

export const driver: Driver =
  Number.parseInt(process.versions.node, 10) >= BUILTIN_SINCE ? 'node:sqlite' : 'libsql'

export function openBare(path: string): BareDatabase {
  if (driver === 'libsql') return new Libsql(path) as unknown as BareDatabase
  const builtin: unknown = process.getBuiltinModule('node:sqlite')
  const { DatabaseSync } = builtin as { DatabaseSync: new (path: string) => BareDatabase }
  return new DatabaseSync(path)
}
