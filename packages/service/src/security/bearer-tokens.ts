import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { AuthEntry, AuthTokens } from './auth-entries.js'
import type { Principal, Right } from './principal.js'

const TOKEN = /^hft_[A-Za-z0-9_-]{43}$/

/** A new bearer token: 256 random bits, with a beginning by which scanners for leaked secrets can tell what it is. */
export function mintToken(): string {
  return `hft_${randomBytes(32).toString('base64url')}`
}

/**
 * What is kept of a token. One SHA-256 is enough, where a password would need a slow hash and a salt: a token has 256
 * random bits, so there is no list of likely ones to try, and no two are alike. And it is checked with every request.
 */
export function digestOfToken(token: string): string {
  return hash('sha256', token, 'hex')
}

/** What one entry of the file allows. */
class TokenHolder implements Principal {
  readonly name: string
  readonly maxTtlMs: number | null
  readonly entry: AuthEntry
  readonly digest: Buffer
  readonly #rights: AuthEntry['rights']
  readonly #expiresAt: number
  readonly #now: () => number
  readonly #inForce: () => TokenHolder | undefined

  /** `inForce` gives whoever holds the same token now. */
  constructor(entry: AuthEntry, now: () => number, inForce: () => TokenHolder | undefined) {
    this.entry = entry
    this.name = entry.name
    this.maxTtlMs = entry.maxTtlMs ?? null
    this.digest = Buffer.from(entry.sha256, 'hex')
    this.#rights = entry.rights
    this.#expiresAt = entry.expires === undefined ? Number.POSITIVE_INFINITY : Date.parse(entry.expires)
    this.#now = now
    this.#inForce = inForce
  }

  /** The end of a token is a date for people, so here the wall clock is the one that is meant. */
  get hasRunOut(): boolean {
    return this.#now() >= this.#expiresAt
  }

  may(right: Right, name: string): boolean {
    return this.#rights.some(({ prefix, can }) => can.includes(right) && name.startsWith(prefix))
  }

  mayAny(right: Right): boolean {
    return this.#rights.some(({ can }) => can.includes(right))
  }

  isValid(): boolean {
    return !this.hasRunOut && this.#inForce() === this
  }

  stillMay(right: Right, name: string): boolean {
    const now = this.#inForce()
    return now !== undefined && !now.hasRunOut && now.may(right, name)
  }
}

/** The tokens that are known now. */
export class BearerTokens {
  /** By digest. */
  #holders: ReadonlyMap<string, TokenHolder> = new Map()
  readonly #now: () => number

  constructor(tokens: AuthTokens, now: () => number = Date.now) {
    this.#now = now
    this.replace(tokens)
  }

  get count(): number {
    return this.#holders.size
  }

  /** Who holds a token whose entry stays the same stays as well: by that the others know that theirs does not. */
  replace({ tokens }: AuthTokens): void {
    const holders = tokens.map((entry): [string, TokenHolder] => {
      const { sha256 } = entry
      const known = this.#holders.get(sha256)
      if (known !== undefined && isDeepStrictEqual(known.entry, entry)) return [sha256, known]
      return [sha256, new TokenHolder(entry, this.#now, () => this.#holders.get(sha256))]
    })
    this.#holders = new Map(holders)
  }

  /** Says whose token it is; null for one that is not known, or not any more. */
  identify(token: string): Principal | null {
    // The form of a token is public, so turning away what cannot be one tells nothing.
    if (!TOKEN.test(token)) return null
    const holder = this.#find(Buffer.from(digestOfToken(token), 'hex'))
    return holder === null || holder.hasRunOut ? null : holder
  }

  /** Looks at all of them, also behind the one that fits, so that the time says neither which one it was nor how near. */
  #find(digest: Buffer): TokenHolder | null {
    let found: TokenHolder | null = null
    for (const holder of this.#holders.values()) {
      if (timingSafeEqual(holder.digest, digest)) found = holder
    }
    return found
  }
}
