/**
 * Driver errors become Holdfast's here and nowhere else. What is not understood is given back as it is:
 * read as contention, it would turn a defect into a wait.
 */

import {
  BackendUnavailableError,
  HoldfastError,
  OutcomeUnknownError,
  quote,
  UnsupportedError,
} from '../../core/errors.js'

/** Primary result codes, https://sqlite.org/rescode.html. */
const CODES: ReadonlyMap<string, number> = new Map([
  ['SQLITE_PERM', 3],
  ['SQLITE_BUSY', 5],
  ['SQLITE_LOCKED', 6],
  ['SQLITE_READONLY', 8],
  ['SQLITE_IOERR', 10],
  ['SQLITE_CORRUPT', 11],
  ['SQLITE_FULL', 13],
  ['SQLITE_CANTOPEN', 14],
  ['SQLITE_PROTOCOL', 15],
  ['SQLITE_NOTADB', 26],
])

const BUSY = 5
const LOCKED = 6
const IOERR = 10
const PROTOCOL = 15

/** The primary SQLite code of a driver's error, or null where it carries none. */
export function sqliteCode(error: unknown): number | null {
  if (!(error instanceof Error)) return null
  // node:sqlite says `errcode`, libsql `rawCode`; both may be extended codes, whose low byte is the primary
  // one.
  for (const key of ['errcode', 'rawCode'] as const) {
    const code: unknown = Reflect.get(error, key)
    if (typeof code === 'number') return code & 0xff
  }
  // better-sqlite3 has the name only, and the extended ones start with the primary one's.
  const name: unknown = Reflect.get(error, 'code')
  if (typeof name === 'string') {
    const [prefix, primary] = name.split('_')
    const known = CODES.get(`${prefix}_${primary}`)
    if (known !== undefined) return known
  }
  // libsql reports a failed opening as text that ends with the number.
  const opening = /^ConnectionFailed\(.*: (\d+)"?\)$/s.exec(error.message)
  return opening === null ? null : Number(opening[1]) & 0xff
}

/**
 * Someone else has the file for the moment. PROTOCOL is a lost race for the WAL's locks, and passes as well.
 */
export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error)
  return code === BUSY || code === LOCKED || code === PROTOCOL
}

/**
 * After some errors, a full disk for one, SQLite has rolled back by itself, and a rollback finds nothing to
 * do.
 */
export function isNoTransaction(error: unknown): boolean {
  return error instanceof Error && error.message.includes('no transaction is active')
}

/** What blocks every name of the file. */
const STOPPED =
  'A process that is stopped inside a transaction (SIGSTOP, a paused container) blocks all names of the file until it goes ' +
  'on or ends. Find it with `fuser` or `lsof`, and let it go on or end it.'

export function busyError(path: string, waitedMs: number, cause: unknown): BackendUnavailableError {
  return new BackendUnavailableError(
    `The SQLite database ${quote(path)} was busy for ${Math.round(waitedMs)} ms, so nothing was done. ${STOPPED}`,
    { backend: 'sqlite', cause },
  )
}

/** For a request that was given up before `busyMs` was over. */
export function busyAdvice(path: string): string {
  return `Another process has the write lock of the SQLite database ${quote(path)}. ${STOPPED}`
}

/**
 * What to throw for an error of the driver. `committing` says that the last word may or may not have been
 * written.
 */
export function driverError(error: unknown, path: string, committing = false): unknown {
  if (error instanceof HoldfastError) return error
  const code = sqliteCode(error)
  if (committing && code === IOERR) {
    return new OutcomeUnknownError(
      `The SQLite database ${quote(path)} could not be written to the end: the disk failed or is full.`,
      { backend: 'sqlite', cause: error },
    )
  }
  const advice = (code === null ? undefined : ADVICE.get(code)) ?? adviceByText(error)
  if (advice === undefined) return error
  const Class = advice.unsupported === true ? UnsupportedError : BackendUnavailableError
  return new Class(`The SQLite database ${quote(path)} ${advice.text}`, { backend: 'sqlite', cause: error })
}

interface Advice {
  readonly text: string
  readonly unsupported?: boolean
}

const MAY_NOT_OPEN =
  'could not be opened. Check that the folder exists, and that this user may write to it and to the file.'
const IN_TRANSACTION: Advice = {
  text: 'has a foreign transaction open on the given connection. Give Holdfast a connection of its own.',
}
const UNSAFE_NUMBER: Advice = {
  text: 'holds a number that Holdfast never writes. Give Holdfast a file of its own.',
}

const ADVICE: ReadonlyMap<number, Advice> = new Map([
  [3, { text: MAY_NOT_OPEN }],
  [8, { text: 'is read-only. Let this user write to the file and its folder, or use another path.' }],
  [IOERR, { text: 'met a disk that failed or is full. Make room, or use another path.' }],
  [11, { text: 'is damaged. Stop its users, look at it with `PRAGMA integrity_check`, and move it away.' }],
  [13, { text: 'could not grow, because the disk is full. Make room, or use another path.' }],
  [14, { text: MAY_NOT_OPEN }],
  [26, { text: 'is not a SQLite database. Use another path.', unsupported: true }],
])

/** The few whose code says nothing. */
function adviceByText(error: unknown): Advice | undefined {
  if (!(error instanceof Error)) return undefined
  if (error.message.includes('within a transaction')) return IN_TRANSACTION
  if ('code' in error && error.code === 'ERR_OUT_OF_RANGE') return UNSAFE_NUMBER
  return undefined
}

const FILE_ADVICE: ReadonlyMap<string, string> = new Map([
  ['EACCES', 'this user may not write there. Change the rights, or use another path.'],
  ['EPERM', 'this user may not write there. Change the rights, or use another path.'],
  ['EROFS', 'the file system is read-only. Use another path.'],
  ['ENOSPC', 'the disk is full. Make room, or use another path.'],
  ['EDQUOT', 'the disk quota is used up. Make room, or use another path.'],
  ['ENOTDIR', 'a part of the path is a file, not a folder. Use another path.'],
  ['EEXIST', 'a part of the path is a file, not a folder. Use another path.'],
  ['EISDIR', 'it is a folder. Use the path of a file.'],
  ['ENOENT', 'a link in the path leads nowhere. Use another path.'],
  ['ELOOP', 'the links in the path go round in a circle. Use another path.'],
  ['ENAMETOOLONG', 'the path is too long. Use a shorter one.'],
  ['EMFILE', 'this process has too many files open. Raise its limit.'],
  ['ENFILE', 'the system has too many files open. Raise its limit.'],
])

/** The same for errors of the file system, before a driver is involved. */
export function fileError(error: unknown, path: string): unknown {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return error
  const advice = FILE_ADVICE.get(error.code)
  if (advice === undefined) return error
  return new BackendUnavailableError(`The SQLite database ${quote(path)} could not be made: ${advice}`, {
    backend: 'sqlite',
    cause: error,
  })
}

/** A stored value that Holdfast cannot have written. Guessing what it means could give a lock to two. */
export function malformedError(path: string, resource: string | null, what: string): BackendUnavailableError {
  const where = resource === null ? '' : ` for ${quote(resource)}`
  return new BackendUnavailableError(
    `The SQLite database ${quote(path)} has a damaged row${where}: ${what}. Another program wrote to ` +
      'it. Stop its users, and delete the row or the file.',
    { backend: 'sqlite', resource },
  )
}

/** The same for a record. Which one it is stays untold: its key is nobody's business. */
export function malformedRecordError(path: string, what: string): BackendUnavailableError {
  return new BackendUnavailableError(
    `The SQLite database ${quote(path)} has a damaged record: ${what}. Another program wrote to it. Stop its users, and ` +
      'delete the row or the file.',
    { backend: 'sqlite' },
  )
}
