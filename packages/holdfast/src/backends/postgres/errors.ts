/**
 * What PostgreSQL and `pg` report becomes Holdfast's own error here and nowhere else. What is not understood is given
 * back as it is: read as contention, it would turn a defect into a wait.
 */

import { BackendUnavailableError, HoldfastError, UnsupportedError } from '../../core/errors.js'
import { notReached } from '../shared/not-reached.js'
import { CONNECTION, errorOf, isAmong, type Meaning } from '../sql/meaning.js'

const BACKEND = 'postgres'
const SERVER = 'PostgreSQL'

const MIGRATE =
  "has no tables or routines of Holdfast here. Make them with `holdfast migrate --url …`, or with the client's `migrate()`."

const POOLED =
  'does not keep prepared statements for this connection, as behind a pooler in transaction mode. Give `prepare: false`.'

/** What a pooler says that knows only some of the settings a connection can begin with. */
const STARTUP: Meaning = {
  kind: 'final',
  text:
    'is behind a pooler that refuses the startup parameter `options`. Set `ignore_startup_parameters = options` in its ' +
    'configuration, or give a ready pool.',
}

const ISOLATION =
  'runs these statements at an isolation level under which a lock cannot be seen in time. Set ' +
  "`default_transaction_isolation` of the connection or the role to 'read committed'."

/** By SQLSTATE, https://www.postgresql.org/docs/current/errcodes-appendix.html. */
const STATES: ReadonlyMap<string, Meaning> = new Map<string, Meaning>([
  ['40001', { kind: 'serialization', text: 'could not put this transaction in an order with others.' }],
  ['40P01', { kind: 'deadlock', text: 'ended this transaction because it was in a deadlock.' }],
  ['55P03', { kind: 'lock-timeout', text: 'did not give the lock in time.' }],
  ['42P01', { kind: 'final', text: MIGRATE }],
  ['42883', { kind: 'final', text: MIGRATE }],
  ['3F000', { kind: 'final', text: MIGRATE }],
  [
    '42501',
    {
      kind: 'final',
      text: 'does not let this user do that. `holdfast doctor` tells which rights are needed.',
    },
  ],
  ['28000', { kind: 'final', text: 'does not let this user in.' }],
  ['28P01', { kind: 'final', text: 'does not accept the user name or the password.' }],
  ['3D000', { kind: 'final', text: 'has no such database.' }],
  ['HF001', { kind: 'final', text: ISOLATION }],
  ['42P05', { kind: 'final', text: POOLED }],
  ['26000', { kind: 'final', text: POOLED }],
  ['25006', { kind: 'unavailable', text: 'takes no writes. It is a standby, or a failover is under way.' }],
  ['53100', { kind: 'unavailable', text: 'has no disk space left.' }],
  ['53200', { kind: 'unavailable', text: 'has no memory left.' }],
  ['53300', { kind: 'unavailable', text: 'has no connection left. Raise `max_connections`, or use fewer.' }],
  [
    '57014',
    {
      kind: 'unavailable',
      text: 'cancelled the statement, so it did nothing. Is `statement_timeout` too short?',
    },
  ],
  ['57P03', { kind: 'unavailable', text: 'is starting up or shutting down.' }],
  ['57P01', { kind: 'unknown', text: 'closed the connection.' }],
  ['57P02', { kind: 'unknown', text: 'is recovering from the crash of one of its processes.' }],
  ['57P05', { kind: 'unknown', text: 'closed the connection for being idle.' }],
  ['25P03', { kind: 'unknown', text: 'ended the transaction for being idle.' }],
])

/** Certainly not sent. */
const NOT_SENT: readonly RegExp[] = [
  /^timeout exceeded when trying to connect/i,
  /^Client has encountered a connection error and is not queryable/,
  /^Client was closed and is not queryable/,
  /^Cannot use a pool after calling end on the pool/,
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
const UNKNOWN: readonly RegExp[] = [/^Connection terminated/, /^Query read timeout/]
const UNKNOWN_CODES: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ECONNABORTED'])

/** What the driver hangs onto its errors: rows, and with them claim ids, can be in them. */
const REVEALING: readonly string[] = ['detail', 'internalQuery', 'where']

/** The five letters and digits that say what the server means; null for an error of the driver. */
export function sqlState(error: unknown): string | null {
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : null
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : null
}

/** What to throw for whatever the driver rejected with. */
export function postgresError(error: unknown): unknown {
  if (error instanceof HoldfastError || !(error instanceof Error)) return error
  for (const property of REVEALING) Reflect.deleteProperty(error, property)
  const context = { backend: BACKEND, cause: error }
  const state = sqlState(error)
  if (state !== null) {
    if (state === '08P01' && error.message.includes('startup parameter'))
      return errorOf(SERVER, STARTUP, context)
    const meaning = STATES.get(state) ?? (state.startsWith('08') ? CONNECTION : null)
    return meaning === null ? error : errorOf(SERVER, meaning, context)
  }
  if (isAmong(error, NOT_SENT_CODES, NOT_SENT)) {
    return notReached('PostgreSQL', error, context)
  }
  if (isAmong(error, UNKNOWN_CODES, UNKNOWN)) return errorOf(SERVER, CONNECTION, context)
  return error
}

/** An answer that the recipe's own statement cannot have given. */
export function strangeAnswer(what: string): BackendUnavailableError {
  return new BackendUnavailableError(
    `PostgreSQL answered with something strange: ${what}. Is a proxy in between?`,
    {
      backend: BACKEND,
    },
  )
}

export function wrongIsolation(): UnsupportedError {
  return new UnsupportedError(`The PostgreSQL server ${ISOLATION}`, { backend: BACKEND })
}
