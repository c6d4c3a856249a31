/**
 * Tokens: the server gives one out with a form or a page, and takes it back once. A token says nothing; half of it is
 * chance, and half a digest that binds it to whom and what for it was issued, so that in other hands it is refused
 * without being used up.
 */

import type { Locks } from '../client/client.js'
import { systemRuntime } from '../client/system.js'
import { InvalidInputError, UnsupportedError } from '../core/errors.js'
import { checkName } from '../core/names.js'
import { checkFunction, checkKeys } from '../core/options.js'
import { type TokenRefusal, TokenRefusedError } from '../core/record-errors.js'
import type { RecordStore } from '../core/records.js'
import type { Runtime } from '../core/runtime.js'
import { unprotectedContext, type Work } from './attempt.js'
import { canonicalJson } from './canonical.js'
import { durationMs } from './durations.js'
import { report } from './events.js'
import type { Idempotency } from './idempotency.js'
import { digestOfParts, refOfRecord } from './keys.js'
import { fingerprintFor, type Plan } from './plan.js'
import { checkKept } from './settings.js'
import type { Duration, IdempotencyEvent, Outcome, RunOptions } from './types.js'

/**
 * `promote`: the token becomes the record of the work. Shown again, it gives the same result; after a crash it may be
 * shown again, too. `consume`: the first showing uses it up, whatever comes of the work: at most once. `counter`: the same,
 * and every showing is counted. `lock`: a lock is held around the check, the work and the end of the token; a crash
 * between the last two lets the work be done again.
 */
export type TokenStrategy = 'promote' | 'consume' | 'counter' | 'lock'

export interface TokenOptions {
  /** Default `promote`. */
  readonly strategy?: TokenStrategy
  /**
   * How long a token can be shown for the first time. Default 15 min. With `promote`, one that was shown in time lives on
   * with its record: if its work fails, or its process dies, it is good for as long as the retention of that run says.
   */
  readonly ttlMs?: Duration
  /** Keeps programs apart that share a store. Default `default`. */
  readonly namespace?: string
  /** Needed by `lock`, and of no use to the others. */
  readonly locks?: Locks
}

/** Whom a token is for and what for. The same must be said when it is shown. */
export interface TokenBinding {
  readonly subject: string
  readonly purpose: string
  /** Anything else that it shall be bound to, such as what is to be bought. */
  readonly bind?: unknown
}

export interface IssuedToken {
  readonly token: string
  readonly expiresInMs: number
}

export interface Shown {
  /** `ok`: it is used up now, and the work may begin. */
  readonly answer: 'ok' | TokenRefusal
  /** How often it was shown, where the strategy is `counter`. */
  readonly uses: number
}

const DEFAULT_TTL_MS = 15 * 60_000
const CHANCE_BYTES = 16
const FORM = /^([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{22})$/
const STRATEGIES: readonly TokenStrategy[] = ['promote', 'consume', 'counter', 'lock']

export function createTokens(
  idempotency: Idempotency,
  options: TokenOptions = {},
  runtime: Runtime = systemRuntime,
): Tokens {
  return new Tokens(idempotency, options, runtime)
}

export class Tokens {
  readonly #idempotency: Idempotency
  readonly #runtime: Runtime
  readonly #strategy: TokenStrategy
  readonly #ttlMs: number
  readonly #namespace: string
  readonly #locks: Locks | null

  constructor(idempotency: Idempotency, options: TokenOptions, runtime: Runtime) {
    checkKeys(options, ['strategy', 'ttlMs', 'namespace', 'locks'])
    const { strategy = 'promote', ttlMs = DEFAULT_TTL_MS, namespace = 'default', locks = null } = options
    if (!STRATEGIES.includes(strategy)) {
      throw new InvalidInputError('strategy', `one of ${STRATEGIES.join(', ')}`, strategy)
    }
    if ((strategy === 'lock') !== (locks !== null)) {
      throw new InvalidInputError('locks', 'given with the strategy `lock`, and only then', typeof locks)
    }
    this.#idempotency = idempotency
    this.#runtime = runtime
    this.#strategy = strategy
    this.#ttlMs = durationMs(ttlMs, 'ttlMs', 1)
    this.#namespace = checkName(namespace, 'namespace')
    this.#locks = locks
  }

  /** Gives out a token. Its text is safe in HTML, URLs, headers and JSON. */
  async issue(binding: TokenBinding & { readonly ttlMs?: Duration }): Promise<IssuedToken> {
    checkKeys(binding, ['subject', 'purpose', 'bind', 'ttlMs'], 'binding')
    const { ttlMs = this.#ttlMs, ...rest } = binding
    const { traits, name } = this.#idempotency.store
    const expiresInMs = checkKept(durationMs(ttlMs, 'ttlMs', 1), 'ttlMs', traits, name)
    for (;;) {
      const chance = Buffer.from(this.#runtime.random.id(), 'hex')
        .subarray(0, CHANCE_BYTES)
        .toString('base64url')
      const token = `${chance}.${this.#bond(chance, rest)}`
      const key = this.#keyOf(token)
      if (!(await this.#ask(rest, (store) => store.issue(key, expiresInMs)))) continue
      this.#tell('token-issued', rest, key)
      return { token, expiresInMs }
    }
  }

  /** Uses a token up, for the strategies `consume` and `counter`. It never rejects a token: it says what is wrong with it. */
  async consume(token: unknown, binding: TokenBinding): Promise<Shown> {
    if (this.#strategy !== 'consume' && this.#strategy !== 'counter') {
      throw new UnsupportedError(`A token of the strategy \`${this.#strategy}\` is used with \`run()\`.`)
    }
    const form = this.#check(token, binding)
    if (form.kind === 'refused') return this.#refused(form.reason, binding, '')
    const count = this.#strategy === 'counter'
    const { kind, uses } = await this.#ask(binding, (store) => store.spend({ key: form.key, count }))
    if (kind !== 'spent') return this.#refused(kind, binding, form.key, uses)
    this.#tell('token-spent', binding, form.key)
    return { answer: 'ok', uses }
  }

  /** The key of the record that a token stands for, for those who claim it themselves. `TokenRefusedError` unless it is good. */
  recordOf(token: unknown, binding: TokenBinding): string {
    const form = this.#check(token, binding)
    if (form.kind === 'refused') throw this.#error(this.#refused(form.reason, binding, '').answer, binding)
    return form.key
  }

  /**
   * Does the work that the token stands for, as the strategy says. Rejects with `TokenRefusedError` where the token is
   * forged, expired, somebody else's or used up. With `promote`, an `input` is compared as with any key.
   */
  async run<T>(
    token: unknown,
    binding: TokenBinding & { readonly input?: unknown },
    work: Work<T>,
    options?: RunOptions<T>,
  ): Promise<Outcome<T>> {
    checkFunction(work, 'work')
    const { input, ...rest } = binding
    const key = this.recordOf(token, rest)
    const plan = this.#plan<T>(key, rest, input, options)
    switch (this.#strategy) {
      case 'promote':
        return await this.#idempotency.play(plan, work)
      case 'lock':
        return await this.#underLock(key, rest, plan, work)
      case 'consume':
      case 'counter': {
        const { answer } = await this.consume(token, rest)
        if (answer !== 'ok') throw this.#error(answer, rest)
        return outcomeOf(await work(unprotectedContext(plan)), 0n)
      }
    }
  }

  async #underLock<T>(key: string, binding: TokenBinding, plan: Plan<T>, work: Work<T>): Promise<Outcome<T>> {
    const mutex = (this.#locks as Locks).mutex(`holdfast-token:${key}`)
    return await mutex.run(async (hold) => {
      const view = await this.#ask(binding, (store) => store.read(key))
      const refusal = view === null ? 'missing' : view.state === 'issued' ? null : 'used'
      if (refusal !== null) throw this.#error(this.#refused(refusal, binding, key).answer, binding)
      const { signal, fence } = hold
      const value = await work({ ...unprotectedContext(plan), signal, fence })
      await this.#spendAfter(key, binding)
      return outcomeOf(value, fence)
    })
  }

  /** The work is done, so its value is given whatever comes of this. A token that stays good lets it be done again. */
  async #spendAfter(key: string, binding: TokenBinding): Promise<void> {
    const answer = await this.#idempotency.insist(
      binding.purpose,
      (store) => store.spend({ key, count: false }),
      (error) => this.#tell('complete-failed', binding, key, { error }),
    )
    if (answer !== 'failed') this.#tell('token-spent', binding, key)
  }

  async #ask<T>({ purpose }: TokenBinding, request: (store: RecordStore) => Promise<T>): Promise<T> {
    return await this.#idempotency.ask(purpose, request)
  }

  #plan<T>(key: string, { purpose }: TokenBinding, input: unknown, options?: RunOptions<T>): Plan<T> {
    const settings = this.#idempotency.settingsOf(options)
    const fingerprint = fingerprintFor(input, key, settings)
    return {
      key,
      ref: refOfRecord(purpose, key),
      operation: purpose,
      fingerprint,
      onlyIssued: true,
      settings,
    }
  }

  /** What a client sends is compared with what it should be, and reaches the store as a digest only. */
  #check(
    token: unknown,
    binding: TokenBinding,
  ):
    | { readonly kind: 'good'; readonly key: string }
    | { readonly kind: 'refused'; readonly reason: TokenRefusal } {
    checkKeys(binding, ['subject', 'purpose', 'bind'], 'binding')
    const parts = typeof token === 'string' ? FORM.exec(token) : null
    if (parts === null) return { kind: 'refused', reason: 'malformed' }
    const [whole, chance = '', bond] = parts
    if (bond !== this.#bond(chance, binding)) return { kind: 'refused', reason: 'mismatch' }
    return { kind: 'good', key: this.#keyOf(whole) }
  }

  #bond(chance: string, { subject, purpose, bind }: TokenBinding): string {
    checkName(subject, 'subject')
    checkName(purpose, 'purpose')
    const more = bind === undefined ? '' : canonicalJson(bind)
    const digest = digestOfParts('token', [chance, this.#namespace, subject, purpose, more])
    return Buffer.from(digest, 'hex').subarray(0, CHANCE_BYTES).toString('base64url')
  }

  #keyOf(token: string): string {
    return digestOfParts('token', [this.#namespace, token])
  }

  #refused(
    answer: TokenRefusal,
    binding: TokenBinding,
    key: string,
    uses = 0,
  ): Shown & { answer: TokenRefusal } {
    this.#tell('token-refused', binding, key)
    return { answer, uses }
  }

  #error(reason: TokenRefusal, { purpose }: TokenBinding): TokenRefusedError {
    return new TokenRefusedError(reason, { resource: purpose, backend: this.#idempotency.store.name })
  }

  #tell(
    type: IdempotencyEvent['type'],
    { purpose }: TokenBinding,
    key: string,
    more?: Partial<IdempotencyEvent>,
  ): void {
    report({ type, operation: purpose, ref: key.slice(0, 12), ...more })
  }
}

function outcomeOf<T>(value: T, fence: bigint): Outcome<T> {
  return { value, replayed: false, fence, attempt: 1, createdAt: null }
}
