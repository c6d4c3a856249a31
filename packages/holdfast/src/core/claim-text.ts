import type { Claim, Kind, Owner } from './backend.js'
import { InvalidInputError } from './errors.js'
import { LIMIT_MAX } from './line.js'
import { FENCE_MAX } from './options.js'
import { TIMER_MAX_MS } from './timing.js'

/**
 * A claim as one text that its owner keeps, so that whoever passes requests on for others has nothing to remember:
 *
 *     hf1.<kind>.<limit>.<weight>.<ttlMs>.<id>[.<fence>]
 *
 * It is a secret, because the id in it is. The fence is the store's number, or `-` where the store mints none.
 */

const VERSION = 'hf1'

const KIND_OF: ReadonlyMap<string, Kind> = new Map([
  ['m', 'mutex'],
  ['s', 'semaphore'],
  ['rw', 'read-write'],
])

const TEXT_OF: Readonly<Record<Kind, string>> = { mutex: 'm', semaphore: 's', 'read-write': 'rw' }

const TEXT_LENGTH_MAX = 160

/** At least 128 bits in any common alphabet, and no longer than what every store has room for. */
export const CLAIM_ID = /^[A-Za-z0-9_-]{22,64}$/

const NUMBER = /^(0|[1-9][0-9]{0,18})$/

/** Who asked is not in the text: it is for people who look, and nothing depends on it. */
const SOMEBODY: Owner = { host: 'unknown', pid: 0, client: 'unknown' }

export interface WrittenClaim {
  readonly claim: Claim
  /** The place that is meant; undefined: the text does not say. */
  readonly fence: bigint | null | undefined
}

export function writeClaim(claim: Claim, fence?: bigint | null): string {
  const { shape, weight, ttlMs, id } = claim
  const text = `${VERSION}.${TEXT_OF[shape.kind]}.${shape.limit}.${weight}.${ttlMs}.${id}`
  return fence === undefined ? text : `${text}.${fence === null ? '-' : fence}`
}

/** Reads a text from outside. Nothing of it is repeated in a message, because it is a secret or may be one. */
export function readClaim(text: unknown, resource: string): WrittenClaim {
  if (typeof text !== 'string' || text.length > TEXT_LENGTH_MAX) throw refusal()
  const parts = text.split('.')
  const [version, kindText = '', limitText, weightText, ttlText, id = '', fenceText] = parts
  const kind = KIND_OF.get(kindText)
  if (version !== VERSION || kind === undefined || parts.length > 7 || !CLAIM_ID.test(id)) throw refusal()
  const limit = readNumber(limitText, LIMIT_MAX)
  const weight = readNumber(weightText, limit)
  const ttlMs = readNumber(ttlText, TIMER_MAX_MS)
  if (kind === 'mutex' && limit !== 1) throw refusal()
  const claim = { id, resource, shape: { kind, limit }, weight, ttlMs, owner: SOMEBODY, note: null }
  return { claim, fence: readFence(fenceText) }
}

/** An id stands for one claim, so it cannot be asked for under two names at a time. */
export function idOfAnotherName(): InvalidInputError {
  return new InvalidInputError('id', 'used for one name only', Symbol('one that is in use'))
}

function readNumber(text: string | undefined, max: number): number {
  const value = text !== undefined && NUMBER.test(text) ? Number(text) : 0
  if (value < 1 || value > max) throw refusal()
  return value
}

function readFence(text: string | undefined): bigint | null | undefined {
  if (text === undefined) return undefined
  if (text === '-') return null
  const fence = NUMBER.test(text) ? BigInt(text) : FENCE_MAX + 1n
  if (fence > FENCE_MAX) throw refusal()
  return fence
}

function refusal(): InvalidInputError {
  return new InvalidInputError('claim', 'a claim as `acquire` answered it', Symbol('something else'))
}
