/** How much anybody may ask of the service. Every number is a bound on memory, on sockets or on somebody else's patience. */

export interface Limits {
  /**
   * The longest lease. Whoever renews can hold on for longer: a service that remembers no hold cannot add up its time, so
   * a token may have a shorter bound of its own, and who holds for too long is seen in the list and can be broken.
   */
  readonly ttlMaxMs: number
  /** The longest long poll, and the longest that a place in line is kept between two of them. */
  readonly waitMaxMs: number
  /** The body of a request. */
  readonly bodyBytesMax: number
  /** The body of a request that carries results, or many claims: records, and batches of renewals. */
  readonly largeBodyBytesMax: number
  /** All headers of a request together. */
  readonly headerBytesMax: number
  /** How long a client may take to send the headers, and the whole request. Waiting for the answer does not count. */
  readonly headersTimeoutMs: number
  readonly requestTimeoutMs: number
  readonly connectionsMax: number
  readonly waitersMax: number
  /** At this instance, and in the queue of the store, which all instances share. */
  readonly waitersPerNameMax: number
  /** This limit, and those of listeners and lists for one token: at most half of all, where it is not given. */
  readonly waitersPerPrincipalMax: number
  /** Claims that one token holds by way of this instance. Callers without a token are not counted. */
  readonly claimsPerPrincipalMax: number
  /** Listeners of `/v1/events`. */
  readonly listenersMax: number
  readonly listenersPerPrincipalMax: number
  /** Answers to `GET /v1/locks` that are being made at once: each walks through the whole store. */
  readonly listsMax: number
  readonly listsPerPrincipalMax: number
  /** Requests per second of one principal, or of one address where there is no authentication; null: as many as come. */
  readonly requestsPerSecond: number | null
}

export const LIMITS: Limits = {
  ttlMaxMs: 24 * 60 * 60 * 1_000,
  waitMaxMs: 60_000,
  bodyBytesMax: 16 * 1_024,
  largeBodyBytesMax: 256 * 1_024,
  headerBytesMax: 16 * 1_024,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 20_000,
  connectionsMax: 25_000,
  waitersMax: 20_000,
  waitersPerNameMax: 10_000,
  waitersPerPrincipalMax: 10_000,
  claimsPerPrincipalMax: 10_000,
  listenersMax: 100,
  listenersPerPrincipalMax: 25,
  listsMax: 16,
  listsPerPrincipalMax: 8,
  requestsPerSecond: 2_000,
}

const HIGHEST: Limits = {
  ttlMaxMs: 2 ** 31 - 1,
  waitMaxMs: 600_000,
  bodyBytesMax: 1_048_576,
  largeBodyBytesMax: 16_777_216,
  headerBytesMax: 1_048_576,
  headersTimeoutMs: 600_000,
  requestTimeoutMs: 600_000,
  connectionsMax: 1_000_000,
  waitersMax: 1_000_000,
  waitersPerNameMax: 1_000_000,
  waitersPerPrincipalMax: 1_000_000,
  claimsPerPrincipalMax: 10_000_000,
  listenersMax: 100_000,
  listenersPerPrincipalMax: 100_000,
  listsMax: 10_000,
  listsPerPrincipalMax: 10_000,
  requestsPerSecond: 1_000_000,
}

export class LimitError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'LimitError'
  }
}

/** Limits for all callers, each with its share for one token. */
const SHARED = [
  ['waitersMax', 'waitersPerPrincipalMax'],
  ['listenersMax', 'listenersPerPrincipalMax'],
  ['listsMax', 'listsPerPrincipalMax'],
] as const

/** One token gets at most half of what a lowered limit allows, or it could take all of it. */
function sharesOf(given: Partial<Limits>): Partial<Limits> {
  return Object.fromEntries(
    SHARED.map(([all, share]) => {
      const half = Math.max(1, Math.floor((given[all] ?? LIMITS[all]) / 2))
      return [share, Math.min(LIMITS[share], half)]
    }),
  )
}

/**
 * The limits of one service: what is given, else the defaults. Where only this machine can call and nobody has to say who
 * they are, no rate is kept: all callers would share the one of the address.
 */
export function limitsOf(given: Partial<Limits> = {}, trusted = false): Limits {
  const limits = { ...LIMITS, ...(trusted ? { requestsPerSecond: null } : {}), ...sharesOf(given), ...given }
  for (const [name, highest] of Object.entries(HIGHEST) as [keyof Limits, number][]) {
    const value = limits[name]
    if (value === null && name === 'requestsPerSecond') continue
    if (!Number.isInteger(value) || (value as number) < 1 || (value as number) > highest) {
      throw new LimitError(`The limit \`${name}\` must be a whole number from 1 to ${highest}.`)
    }
  }
  if (limits.headersTimeoutMs > limits.requestTimeoutMs) {
    throw new LimitError('The limit `headersTimeoutMs` must not be more than `requestTimeoutMs`.')
  }
  return limits
}
