/**
 * Picks a SQLite driver at run time: the one built into Node where it is stable, else an installed package.
 */

import { describe, UnsupportedError } from '../../core/errors.js'
import type { DriverName, SqliteDatabase } from './client.js'

type DatabaseClass = new (path: string) => SqliteDatabase

/** What the choice depends on, so that a test can play another Node with other packages. */
export interface DriverSource {
  readonly nodeMajor: number
  /** The module `node:sqlite`, or undefined where this Node has none. */
  builtin(): unknown
  load(name: string): Promise<unknown>
}

const REAL_SOURCE: DriverSource = {
  nodeMajor: Number.parseInt(process.versions.node, 10),
  // Not an import, because Node 20 has no such module, and because bundlers move or drop what they cannot
  // resolve.
  builtin: () => process.getBuiltinModule('node:sqlite'),
  // The name is a variable, so that a bundler leaves the optional package where it is.
  load: (name) => import(/* webpackIgnore: true */ /* @vite-ignore */ name),
}

/** Since this version `node:sqlite` is there without a flag and without a warning. */
const BUILTIN_SINCE = 24

/** The class to open a database with. With a `wanted` driver it is that one or an error. */
export async function pickDriver(
  wanted: DriverName | undefined,
  source: DriverSource = REAL_SOURCE,
): Promise<DatabaseClass> {
  if (wanted === 'node:sqlite' || (wanted === undefined && source.nodeMajor >= BUILTIN_SINCE)) {
    const builtin = classIn(source.builtin(), 'DatabaseSync')
    if (builtin !== null) return builtin
  }
  if (wanted === 'node:sqlite') throw missing(`\`node:sqlite\`, which comes with Node ${BUILTIN_SINCE}`)
  for (const name of wanted === undefined ? (['libsql', 'better-sqlite3'] as const) : [wanted]) {
    const found = await loadPackage(name, source)
    if (found !== null) return found
  }
  const command = `npm install ${wanted ?? 'libsql'}`
  throw missing(`a driver. Run \`${command}\`, or use Node ${BUILTIN_SINCE}, which has one`)
}

async function loadPackage(name: string, source: DriverSource): Promise<DatabaseClass | null> {
  let module: unknown
  try {
    module = await source.load(name)
  } catch (cause) {
    if (isAbsent(cause, name)) return null
    // Trying the next one would hide that this one is broken.
    throw new UnsupportedError(
      `The SQLite driver \`${name}\` is installed but does not load: ${messageOf(cause)}. Install it ` +
        'again on this machine, or choose another with the option `driver`.',
      { backend: 'sqlite', cause },
    )
  }
  const found = classIn(module, 'default')
  if (found !== null) return found
  throw new UnsupportedError(`The package \`${name}\` has no database class as its default export.`, {
    backend: 'sqlite',
  })
}

/** Absent is the package itself; a missing part of it, such as its binary for this platform, is a defect. */
function isAbsent(error: unknown, name: string): boolean {
  if (!(error instanceof Error) || !('code' in error)) return false
  const notFound = error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND'
  return notFound && error.message.includes(`'${name}'`)
}

function classIn(module: unknown, key: string): DatabaseClass | null {
  if (typeof module !== 'object' || module === null) return null
  const found: unknown = Reflect.get(module, key)
  return typeof found === 'function' ? (found as DatabaseClass) : null
}

function missing(what: string): UnsupportedError {
  return new UnsupportedError(`The SQLite backend needs ${what}.`, { backend: 'sqlite' })
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message.replace(/\.$/, '') : describe(error)
}
