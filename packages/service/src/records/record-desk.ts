/** Requests about records, from what a body says to what the store is asked. Keys and results appear in no message. */

import { InvalidInputError } from 'holdfast'
import {
  createIdempotency,
  createTokens,
  type Idempotency,
  type RecordStore,
  type RecordTraits,
  type Tokens,
} from 'holdfast/idempotency'
import { checkTarget, isStorable, recordKeyOf } from 'holdfast/service'
import { ProblemError, problemOf } from '../problems.js'
import { RECORDS, recordName, TOKENS, tokenName } from '../security/principal.js'
import type { AddressBody } from './schemas.js'

/** One record, and the names under which rights to it are given. */
export interface Address {
  readonly key: string
  /** The right to each of them is needed. */
  readonly names: readonly string[]
  /** What errors call it. */
  readonly operation: string
  /** A token is only ever claimed where it was issued. */
  readonly onlyIssued: boolean
  /** By its digest: whoever does that has rules of their own, and has checked them. */
  readonly isRaw: boolean
}

/** The library's own default, so that its programs and those of other languages meet. */
const NAMESPACE = 'default'
/** Stores that do not forget by themselves are swept a little, now and then. */
const PURGE_EVERY_CLAIMS = 512
const PURGE_MAX = 256

export class RecordDesk {
  readonly idempotency: Idempotency
  readonly counting: Tokens
  readonly consuming: Tokens
  readonly #leaseMaxMs: number
  readonly #onError: (error: unknown) => void
  #claims = 0

  constructor(idempotency: Idempotency, leaseMaxMs: number, onError: (error: unknown) => void) {
    this.idempotency = idempotency
    this.#leaseMaxMs = leaseMaxMs
    this.#onError = onError
    this.counting = createTokens(idempotency, { strategy: 'counter', namespace: NAMESPACE })
    this.consuming = createTokens(idempotency, { strategy: 'consume', namespace: NAMESPACE })
  }

  get store(): RecordStore {
    return this.idempotency.store
  }

  /** One request to the store, with a deadline. */
  async ask<T>(
    { operation }: Pick<Address, 'operation'>,
    request: (store: RecordStore) => Promise<T>,
  ): Promise<T> {
    return await this.idempotency.ask(operation, request)
  }

  /** `check` is given each name and throws where the caller has no right to it, before anything else is said. */
  addressOf({ scope, key, token, record }: AddressBody, check: (name: string) => void): Address {
    const given = [scope ?? key, token, record].filter((part) => part !== undefined)
    if (given.length !== 1) {
      throw new InvalidInputError(
        'scope',
        'given with `key`, or else `token`, or else `record`',
        Symbol('another mix'),
      )
    }
    if (record !== undefined) {
      // A digest does not say what it is of, and tokens are records in the same store.
      const names = [RECORDS, TOKENS]
      for (const name of names) check(name)
      return { key: record, names, operation: 'record', onlyIssued: false, isRaw: true }
    }
    if (token !== undefined) {
      const { token: text, ...binding } = token
      const name = tokenName(binding.purpose)
      check(name)
      const found = this.consuming.recordOf(text, binding)
      return { key: found, names: [name], operation: binding.purpose, onlyIssued: true, isRaw: false }
    }
    if (scope === undefined || key === undefined) {
      throw new InvalidInputError('key', 'given together with `scope`', Symbol('one without the other'))
    }
    const name = recordName(scope)
    check(name)
    checkTarget({ scope, key })
    const { operation } = scope
    return {
      key: recordKeyOf(NAMESPACE, { scope, key }),
      names: [name],
      operation,
      onlyIssued: false,
      isRaw: false,
    }
  }

  /** What is asked for, or the default of the library, within what the store can do and the service allows. */
  leaseMs(asked: number | undefined): number {
    const { leaseMs } = this.idempotency.settingsOf(asked === undefined ? {} : { leaseMs: asked })
    if (leaseMs > this.#leaseMaxMs)
      throw new InvalidInputError('leaseMs', `at most ${this.#leaseMaxMs}`, leaseMs)
    return leaseMs
  }

  /** null: for ever. Whoever asks by digest may know what it means that a store forgets. */
  retentionMs(asked: number | null | undefined, isRaw: boolean): number | null {
    if (isRaw && asked === null && this.store.traits.retentionMaxMs === null) return null
    const retention = asked === undefined ? {} : { retention: asked ?? ('forever' as const) }
    return this.idempotency.settingsOf(retention).retentionMs
  }

  /** Every store can keep it, and this one has room for it. */
  checkText(text: string, what: string): void {
    if (!isStorable(text)) {
      throw new InvalidInputError(what, 'a text without control characters', Symbol('another one'))
    }
    const { bytesMax } = this.store.traits
    const bytes = Buffer.byteLength(text)
    if (bytes > bytesMax) {
      throw new InvalidInputError(what, `a text of at most ${bytesMax} bytes`, Symbol(`${bytes} bytes`))
    }
  }

  /** Sweeps now and then. Whoever claims does not wait for it. */
  claimed(): void {
    this.#claims += 1
    if (this.#claims % PURGE_EVERY_CLAIMS !== 0) return
    this.idempotency.purge(PURGE_MAX).catch(this.#onError)
  }
}

/** What fits into a body besides a text that is as long in JSON as it can be: each of its characters may be escaped. */
const ADDRESS_BYTES_MAX = 8_192

/** What the store can keep, as far as it can be sent here, and for how long anything may be leased here. */
export function servedTraits(traits: RecordTraits, bodyBytesMax: number, ttlMaxMs: number): RecordTraits {
  const sendable = Math.max(1, Math.floor((bodyBytesMax - ADDRESS_BYTES_MAX) / 2))
  const bytesMax = Math.min(traits.bytesMax, sendable)
  return { ...traits, bytesMax, leaseMaxMs: Math.min(traits.leaseMaxMs, ttlMaxMs) }
}

/** Opens the store. Where there is none, every request is refused with this. */
export async function openRecordDesk(
  store: RecordStore | null,
  leaseMaxMs: number,
  onError: (error: unknown) => void,
): Promise<() => RecordDesk> {
  if (store === null) {
    return () => {
      throw new ProblemError(problemOf(501, 'UNSUPPORTED', 'The store of this service keeps no records.'))
    }
  }
  const desk = new RecordDesk(await createIdempotency(store), leaseMaxMs, onError)
  return () => desk
}
