/**
 * What MySQL, MariaDB and `mysql2` report becomes Holdfast's own error here and nowhere else. What is not understood is
 * given back as it is: read as contention, it would turn a defect into a wait.
 */

import { BackendUnavailableError, HoldfastError, OutcomeUnknownError } from '../../core/errors.js'
import { notReached } from '../shared/not-reached.js'
import { CONNECTION, errorOf, isAmong, type Meaning } from '../sql/meaning.js'

const BACKEND = 'mysql'
const SERVER = 'MySQL'

const MIGRATE: Meaning = {
  kind: 'final',
  text:
    'has no tables or routines of Holdfast here. Make them with `holdfast migrate --url …`, or with the ' +
    "client's `migrate()`.",
}
const RIGHTS: Meaning = {
  kind: 'final',
  text: 'does not let this user do that. `holdfast doctor` tells which rights are needed.',
}
const LOGIN: Meaning = { kind: 'final', text: 'does not let this user in.' }
const CONNECTIONS: Meaning = {
  kind: 'unavailable',
  text: 'has no connection left for this user. Raise `max_connections`, or use fewer.',
}
const NO_WRITES: Meaning = {
  kind: 'unavailable',
  text: 'takes no writes. It is a replica, or a failover is under way.',
}
const SPACE: Meaning = { kind: 'unavailable', text: 'has no memory or no disk space left.' }
/** A routine that is interrupted runs no handler, and may have committed just before. */
const INTERRUPTED: Meaning = {
  kind: 'unknown',
  text: 'interrupted the statement. Was it killed, or is there a limit on how long one may take?',
}

/**
 * By number: https://dev.mysql.com/doc/mysql-errors/9.0/en/server-error-reference.html,
 * https://mariadb.com/kb/en/mariadb-error-code-reference/.
 */
const NUMBERS: ReadonlyMap<number, Meaning> = new Map<number, Meaning>([
  [1213, { kind: 'deadlock', text: 'ended this transaction because it was in a deadlock.' }],
  [1205, { kind: 'lock-timeout', text: 'did not give the lock in time.' }],
  // What MySQL says to NOWAIT.
  [3572, { kind: 'lock-timeout', text: 'did not give the lock at once.' }],
  // What MariaDB says with `innodb_snapshot_isolation`.
  [1020, { kind: 'serialization', text: 'could not put this transaction in an order with others.' }],
  [1146, MIGRATE],
  [1305, MIGRATE],
  [1044, RIGHTS],
  [1142, RIGHTS],
  [1143, RIGHTS],
  [1227, RIGHTS],
  [1370, RIGHTS],
  [1045, { kind: 'final', text: 'does not accept the user name or the password.' }],
  [1130, LOGIN],
  [1698, LOGIN],
  [1820, LOGIN],
  [1862, LOGIN],
  [3118, LOGIN],
  [1049, { kind: 'final', text: 'has no such database.' }],
  [
    1568,
    {
      kind: 'final',
      text: 'has a transaction open on this connection. Whoever had it last has neither committed nor rolled back.',
    },
  ],
  [
    1665,
    {
      kind: 'final',
      text: 'writes its log by statement, and cannot at READ COMMITTED. Set `binlog_format` to ROW or MIXED.',
    },
  ],
  [1040, CONNECTIONS],
  [1203, CONNECTIONS],
  [1226, CONNECTIONS],
  [1461, { kind: 'unavailable', text: 'has no prepared statement left. Raise `max_prepared_stmt_count`.' }],
  [1290, NO_WRITES],
  [1792, NO_WRITES],
  [1836, NO_WRITES],
  [1021, SPACE],
  [1037, SPACE],
  [1038, SPACE],
  [1041, SPACE],
  [1114, SPACE],
  [1053, { kind: 'unknown', text: 'is shutting down.' }],
  [1317, INTERRUPTED],
  [1969, INTERRUPTED],
  [3024, INTERRUPTED],
  [1927, CONNECTION],
  [2006, CONNECTION],
  [2013, CONNECTION],
  [3169, CONNECTION],
  [4031, { kind: 'unknown', text: 'closed the connection for being idle.' }],
])

/** Certainly not sent. */
const NOT_SENT: readonly RegExp[] = [
  /^Pool is closed/,
  /^Queue limit reached/,
  /^No connections available/,
  /^Can't add new command when connection is in closed state/,
]
const NOT_SENT_CODES: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
])

/** Perhaps sent: the connection ended, or the client's own patience, before an answer came. */
const UNKNOWN_CODES: ReadonlySet<string> = new Set([
  'PROTOCOL_CONNECTION_LOST',
  'PROTOCOL_SEQUENCE_TIMEOUT',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ECONNABORTED',
])

/** What the driver hangs onto its errors: the values of a statement or of a row can be in them. */
const REVEALING: readonly string[] = ['sql', 'sqlMessage']

/** The number that says what the server means; null for an error of the driver. */
export function errno(error: unknown): number | null {
  if (!(error instanceof Error)) return null
  const number: unknown = Reflect.get(error, 'errno')
  if (typeof number === 'number' && number > 0) return number
  // What the server says without having been asked, such as that it ends the connection, has it in another place.
  const code: unknown = Reflect.get(error, 'code')
  return typeof code === 'number' ? code : null
}

/** What to throw for whatever the driver rejected with. */
export function mysqlError(error: unknown): unknown {
  if (error instanceof HoldfastError || !(error instanceof Error)) return error
  for (const property of REVEALING) Reflect.deleteProperty(error, property)
  const context = { backend: BACKEND, cause: error }
  const number = errno(error)
  if (number !== null) {
    const meaning = NUMBERS.get(number)
    return meaning === undefined ? error : errorOf(SERVER, meaning, context)
  }
  if (isAmong(error, NOT_SENT_CODES, NOT_SENT)) {
    return notReached('MySQL', error, context)
  }
  return isAmong(error, UNKNOWN_CODES) ? errorOf(SERVER, CONNECTION, context) : error
}

/** The same for a connection that was not had: whatever went wrong, nothing was asked of the server yet. */
export function connectError(error: unknown): unknown {
  const found = mysqlError(error)
  if (!(found instanceof OutcomeUnknownError)) return found
  return notReached('MySQL', error, { backend: BACKEND, cause: error })
}

/** An answer that the recipe's own statement cannot have given. */
export function strangeAnswer(what: string): BackendUnavailableError {
  return new BackendUnavailableError(
    `MySQL answered with something strange: ${what}. Is a proxy in between?`,
    {
      backend: BACKEND,
    },
  )
}
