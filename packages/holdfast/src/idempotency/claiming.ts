/** How a run gets its record: it claims it, waits for whoever is at work on it, or says what stands in the way. */

import { AbandonedError, InProgressError, KeyReusedError, TokenRefusedError } from '../core/record-errors.js'
import type { ClaimAnswer, ClaimRef } from '../core/records.js'
import { type Claimed, leaseLost } from './attempt.js'
import type { Settled } from './cache.js'
import { tell } from './events.js'
import type { Lease, LeaseKeeper } from './lease.js'
import type { Plan } from './plan.js'
import { isOutage, type RecordDesk } from './record-desk.js'

/** Stores that do not forget by themselves are swept a little, now and then. */
const PURGE_EVERY_CLAIMS = 512
const PURGE_MAX = 256

/** Whoever waits for somebody else's work asks soon at first, and then less and less often. */
const ASK_FIRST_MS = 10
const ASK_LAST_MS = 250

/** The record is this run's, for as long as the lease lasts. */
export interface Won {
  readonly kind: 'won'
  readonly lease: Lease
  readonly claimed: Claimed
}

/** The store has not answered a single claim, so nothing is known of the key. Outages after an answer are thrown instead. */
export interface Unanswered {
  readonly kind: 'unanswered'
  readonly error: unknown
}

type Departure = ReturnType<LeaseKeeper['departure']>

export class Claiming {
  readonly #desk: RecordDesk
  readonly #leases: LeaseKeeper
  #claims = 0

  constructor(desk: RecordDesk, leases: LeaseKeeper) {
    this.#desk = desk
    this.#leases = leases
  }

  /** Claims the record, or finds out what stands in the way. */
  async win<T>(plan: Plan<T>): Promise<Won | Settled | Unanswered> {
    const { waitMs, leaseMs, retentionMs, onAbandoned, signal } = plan.settings
    const { key, ref, onlyIssued } = plan
    const own = plan.fingerprint?.text ?? null
    /** The fingerprint of a record that was made with another key; null: there is none, as far as is known. */
    let kept: string | null = null
    let isAnswered = false
    const until = this.#desk.nowMs() + waitMs
    let pauseMs = ASK_FIRST_MS
    for (;;) {
      const owner = this.#desk.runtime.random.id()
      const departure = this.#leases.departure()
      const takeOver = onAbandoned !== 'block'
      // The fingerprint of another key is for the record that has it: a new record must get our own.
      const fingerprint: string | null = kept ?? own
      const isForExisting: boolean = onlyIssued || kept !== null
      const ask = { key, owner, fingerprint, leaseMs, retentionMs, takeOver, onlyIssued: isForExisting }
      let answer: ClaimAnswer
      try {
        answer = await this.#desk.claim(ask, ref)
      } catch (error) {
        if (isAnswered || !isOutage(error)) throw error
        return { kind: 'unanswered', error }
      }
      isAnswered = true
      if (answer.kind === 'claimed') return await this.#won(plan, owner, answer, departure)
      if (answer.kind === 'settled') return answer
      if (answer.kind === 'mismatch') {
        const found = await this.#keptByOtherKey(plan)
        if (found !== null && found !== fingerprint) {
          kept = found === own ? null : found
          continue
        }
      }
      if (answer.kind === 'missing' && kept !== null && !onlyIssued) {
        kept = null
        continue
      }
      const error = this.#refusal(plan, answer)
      const leftMs = until - this.#desk.nowMs()
      if (answer.kind !== 'in-progress' || leftMs <= 0) throw error
      const jitter = 0.75 + this.#desk.runtime.random.fraction() / 2
      await this.#desk.pause(Math.min(pauseMs * jitter, leftMs, answer.leaseMs + 1), signal)
      pauseMs = Math.min(pauseMs * 1.5, ASK_LAST_MS)
      this.#desk.checkOpen()
    }
  }

  /**
   * A store compares fingerprints as texts, and those of one input differ when the key was changed. The fingerprint of the
   * record if it is of the same input, or cannot be compared; null: the record is for another input.
   */
  async #keptByOtherKey<T>({ key, ref, fingerprint }: Plan<T>): Promise<string | null> {
    try {
      const view = await this.#desk.ask(ref, () => this.#desk.store.read(key))
      const kept = view?.fingerprint ?? null
      return fingerprint?.compare(kept) === 'other' ? null : kept
    } catch (error) {
      if (isOutage(error)) throw error
      // A client that may claim may not always read. Then the answer of the store is all there is.
      return null
    }
  }

  async #won<T>(plan: Plan<T>, owner: string, claimed: Claimed, departure: Departure): Promise<Won> {
    // Nothing begins after the end of the client. The store is closed as well by now, so the record runs out by itself.
    this.#desk.checkOpen()
    const claim = { key: plan.key, owner, fence: claimed.fence }
    const lease = await this.#leases.keep(claim, claimed.leaseMs, departure, plan.settings, plan.ref)
    this.#desk.checkOpen()
    if (lease === null) {
      // What was taken over is left to run out. Released, it would look like work that nobody had ever begun, and the
      // next caller would do it again without finding out what came of it.
      if (!claimed.tookOver) this.#giveBack(plan, claim)
      throw leaseLost(plan.ref, this.#desk.store.name)
    }
    tell(plan.ref, claimed.tookOver ? 'takeover' : 'claimed', { attempt: claimed.attempt })
    this.#purgeNowAndThen()
    return { kind: 'won', lease, claimed }
  }

  /** Nobody has begun with it, so others need not wait for the lease. */
  #giveBack<T>({ ref, settings: { retentionMs } }: Plan<T>, claim: ClaimRef): void {
    const ask = { ...claim, state: 'released', result: null, retentionMs } as const
    void this.#desk.finish(ask, ref, (error) => tell(ref, 'store-error', { error }))
  }

  #refusal<T>(plan: Plan<T>, answer: Exclude<ClaimAnswer, Claimed | Settled>): Error {
    const context = { resource: plan.ref, backend: this.#desk.store.name }
    switch (answer.kind) {
      case 'mismatch':
        tell(plan.ref, 'mismatch')
        return new KeyReusedError(context)
      case 'missing':
        return new TokenRefusedError('missing', context)
      case 'abandoned':
        tell(plan.ref, 'abandoned', { attempt: answer.attempt })
        return new AbandonedError(answer.attempt, context)
      case 'in-progress':
        tell(plan.ref, 'in-progress', { attempt: answer.attempt })
        return new InProgressError(answer.leaseMs, context)
    }
  }

  #purgeNowAndThen(): void {
    this.#claims += 1
    const { store } = this.#desk
    if (this.#claims % PURGE_EVERY_CLAIMS !== 0 || store.purge === undefined) return
    store.purge(PURGE_MAX).catch((error: unknown) => tell('', 'purge-failed', { error }))
  }
}
