/** Who asks, and what they may do. */

export type Right = 'acquire' | 'inspect' | 'break'

export const RIGHTS: readonly Right[] = ['acquire', 'inspect', 'break']

export interface Principal {
  /** The name of the bearer token; `http` where there is no authentication. */
  readonly name: string
  /** The longest lease for this one, where it is shorter than the limit of the service. */
  readonly maxTtlMs: number | null
  may(right: Right, name: string): boolean
  /** Whether there is any name at all with this right. */
  mayAny(right: Right): boolean
  /**
   * False once the token was revoked, ran out, or was given other rights than those that this one tells of: what lasts
   * longer than a request asks from time to time, and ends.
   */
  isValid(): boolean
  /** The same as `may`, by what the token is allowed at this moment: for a request that has waited since it was let in. */
  stillMay(right: Right, name: string): boolean
}

/** Everybody, where there is no authentication: such a service is reached from its own machine only. */
export const ANYBODY: Principal = {
  name: 'http',
  maxTtlMs: null,
  may: () => true,
  mayAny: () => true,
  isValid: () => true,
  stillMay: () => true,
}

/** Rights are given per prefix of a name, so records have names for this purpose too. */
export const RECORDS = 'records/'
export const TOKENS = 'tokens/'

/** The parts are encoded, or a tenant with a slash in it could pass for another one. */
export function recordName(scope: { readonly tenant: string; readonly operation: string }): string {
  return `${RECORDS}${encodeURIComponent(scope.tenant.toWellFormed())}/${encodeURIComponent(scope.operation.toWellFormed())}`
}

/** The name under which the right to the tokens of a purpose is given. */
export function tokenName(purpose: string): string {
  return `${TOKENS}${encodeURIComponent(purpose.toWellFormed())}`
}
