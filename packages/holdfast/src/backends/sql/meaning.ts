/** What an error of a server means to a lock. Each database has a table of its own from its codes to these. */

import {
  BackendUnavailableError,
  DeadlockError,
  type HoldfastError,
  LockTimeoutError,
  OutcomeUnknownError,
  SerializationError,
  UnsupportedError,
} from '../../core/errors.js'

export interface Meaning {
  readonly kind: 'unavailable' | 'unknown' | 'final' | 'deadlock' | 'serialization' | 'lock-timeout'
  /** What the server does or is, behind its name. */
  readonly text: string
}

/** How both databases end a connection. */
export const CONNECTION: Meaning = { kind: 'unknown', text: 'ended the connection before an answer came.' }

export function errorOf(
  server: string,
  { kind, text }: Meaning,
  context: { readonly backend: string; readonly cause: Error },
): HoldfastError {
  const message = `The ${server} server ${text}`
  switch (kind) {
    case 'unavailable':
      return new BackendUnavailableError(message, context)
    case 'unknown':
      return new OutcomeUnknownError(message, context)
    case 'final':
      return new UnsupportedError(message, context)
    case 'deadlock':
      return new DeadlockError(message, context)
    case 'serialization':
      return new SerializationError(message, context)
    case 'lock-timeout':
      return new LockTimeoutError(message, context)
  }
}

/** Whether the error is one of those that the driver itself makes, by its code or by its words. */
export function isAmong(error: Error, codes: ReadonlySet<string>, messages: readonly RegExp[] = []): boolean {
  const code: unknown = Reflect.get(error, 'code')
  return (
    (typeof code === 'string' && codes.has(code)) || messages.some((pattern) => pattern.test(error.message))
  )
}
