/**
 * What the service refuses before it asks the store. Each carries all that its problem needs; `problems.ts` writes it.
 * The detail is for the caller and never repeats a credential.
 */

export type RefusalCode =
  | 'UNAUTHENTICATED'
  | 'FORBIDDEN'
  | 'INVALID_INPUT'
  | 'MISDIRECTED'
  | 'UNSUPPORTED_MEDIA_TYPE'
  | 'TOO_MANY'
  | 'TOO_MANY_CLAIMS'

export abstract class RefusedError extends Error {
  abstract readonly statusCode: number
  abstract readonly code: RefusalCode
  abstract readonly title: string
  /** Headers that the answer must carry besides. */
  readonly headers: Readonly<Record<string, string>>

  constructor(detail: string, headers: Readonly<Record<string, string>> = {}) {
    super(detail)
    this.name = new.target.name
    this.headers = headers
  }
}

export class UnauthenticatedError extends RefusedError {
  readonly statusCode = 401
  readonly code = 'UNAUTHENTICATED'
  readonly title = 'Authentication needed'

  constructor(detail = 'Send a known bearer token: `Authorization: Bearer hft_…`.') {
    super(detail, { 'www-authenticate': 'Bearer realm="holdfast"' })
  }
}

/** The same answer whether or not there is anything under the name. */
export class ForbiddenError extends RefusedError {
  readonly statusCode = 403
  readonly code = 'FORBIDDEN'
  readonly title = 'Not allowed'
}

export class MisdirectedError extends RefusedError {
  readonly statusCode = 421
  readonly code = 'MISDIRECTED'
  readonly title = 'Not served under this name'
}

/** What was sent cannot be read. */
export class BodyError extends RefusedError {
  readonly statusCode = 400
  readonly code = 'INVALID_INPUT'
  readonly title = 'Invalid input'
}

export class MediaTypeError extends RefusedError {
  readonly statusCode = 415
  readonly code = 'UNSUPPORTED_MEDIA_TYPE'
  readonly title = 'Only JSON is read'
}

export class TooManyError extends RefusedError {
  readonly statusCode = 429
  readonly code = 'TOO_MANY'
  readonly title = 'Too many'

  constructor(detail: string, retryAfterSeconds = 1) {
    super(detail, { 'retry-after': String(retryAfterSeconds) })
  }
}

/** The token holds as many claims as it may. */
export class TooManyClaimsError extends RefusedError {
  readonly statusCode = 429
  readonly code = 'TOO_MANY_CLAIMS'
  readonly title = 'The token holds too many claims'

  constructor(max: number) {
    const detail =
      `This token holds ${max} claims, with those that it waits for, which is its limit. Release some, or use shorter leases; an operator can raise ` +
      'the limit `claimsPerPrincipalMax` of the service.'
    super(detail, { 'retry-after': '5' })
  }
}
