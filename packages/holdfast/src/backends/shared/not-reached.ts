import { BackendUnavailableError, type ErrorContext, quote } from '../../core/errors.js'

/** No connection was had. The message says where, and what the socket said, as far as the error knows. */
export function notReached(server: string, error: unknown, context: ErrorContext): BackendUnavailableError {
  const failed = attemptIn(error)
  const place = placeOf(failed)
  const code: unknown = Reflect.get(failed, 'code')
  const at = place === null ? '' : ` at ${quote(place)}`
  const why = typeof code === 'string' && /^E[A-Z_]+$/.test(code) ? ` (${code})` : ''
  return new BackendUnavailableError(`${server}${at} was not reached${why}, so nothing was done.`, context)
}

/** For a name with several addresses, Node.js tries each, and throws all errors as one. */
function attemptIn(error: unknown): object {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error
  return typeof first === 'object' && first !== null ? first : {}
}

function placeOf(failed: object): string | null {
  const address: unknown = Reflect.get(failed, 'address') ?? Reflect.get(failed, 'hostname')
  const port: unknown = Reflect.get(failed, 'port')
  if (typeof address !== 'string') return null
  const host = address.includes(':') ? `[${address}]` : address
  return typeof port === 'number' ? `${host}:${port}` : host
}
