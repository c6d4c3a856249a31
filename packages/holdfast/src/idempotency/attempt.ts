/** One attempt: what the work sees, and how it ends. */

import { LockLostError, OutcomeUnknownError, UnsupportedError } from '../core/errors.js'
import type { ClaimAnswer, FinishAnswer } from '../core/records.js'
import { failureOf } from './failure.js'
import { childKeyOf } from './keys.js'
import type { Lease, LeaseKeeper } from './lease.js'
import type { Plan } from './plan.js'
import type { RecordDesk } from './record-desk.js'
import { Steps } from './steps.js'
import type { AbandonedAttempt, IdempotencyEvent, Outcome, RunContext } from './types.js'
import { isStorable } from './values.js'

export type Claimed = Extract<ClaimAnswer, { readonly kind: 'claimed' }>
export type Work<T> = (context: RunContext) => Promise<T> | T
export type Tell = (type: IdempotencyEvent['type'], more?: Partial<IdempotencyEvent>) => void

/** `unstored`: it was done, and the store knows nothing of a result: it was not wanted, or could not be kept. */
export type Ending<T> =
  | { readonly kind: 'done'; readonly outcome: Outcome<T>; readonly result: string | null }
  | { readonly kind: 'unstored'; readonly outcome: Outcome<T> }
  /** Somebody else has taken the record over. */
  | { readonly kind: 'stale' }

export class Attempt<T> {
  readonly #desk: RecordDesk
  readonly #leases: LeaseKeeper
  readonly #plan: Plan<T>
  readonly #lease: Lease
  readonly #claimed: Claimed
  readonly #tell: Tell
  #made: Steps | null = null
  #discards = false
  #omits = false

  constructor(
    desk: RecordDesk,
    leases: LeaseKeeper,
    plan: Plan<T>,
    lease: Lease,
    claimed: Claimed,
    tell: Tell,
  ) {
    this.#desk = desk
    this.#leases = leases
    this.#plan = plan
    this.#lease = lease
    this.#claimed = claimed
    this.#tell = tell
  }

  /** Made on demand, because most work has none. */
  get #steps(): Steps {
    this.#made ??= new Steps(
      this.#plan.key,
      this.#plan.settings.codec,
      this.#claimed.progress,
      (progress) => this.#save(progress),
      (error) => this.#tell('result-not-kept', { error }),
    )
    return this.#made
  }

  /** Runs the work and stores what comes of it. The error of the work always wins. */
  async play(work: Work<T>): Promise<Ending<T>> {
    try {
      if (!this.#claimed.tookOver) return await this.#work(work, null)
      const previous = { attempt: this.#claimed.attempt - 1, steps: await this.#steps.known() }
      const { onAbandoned } = this.#plan.settings
      if (typeof onAbandoned === 'function') {
        const found = await onAbandoned(previous)
        if ('complete' in found) return await this.#complete(found.complete, true)
      }
      // To find out may take long. Work that begins without a lease may meet that of whoever has taken over.
      this.#leases.check(this.#lease)
      return await this.#work(work, previous)
    } finally {
      // Where nobody could find out what came of the attempt before, the record is left to run out as it is.
      this.#leases.drop(this.#lease)
    }
  }

  /**
   * Ends it without any work, for somebody who knows what came of it; null: nothing did, and it may be done again. What
   * its steps had given does not matter any more, so it need not even be readable.
   */
  async settle(known: { readonly value: T } | null): Promise<FinishAnswer> {
    let failure: unknown
    try {
      const [state, result] =
        known === null
          ? (['released', null] as const)
          : (['completed', await this.#encode(known.value)] as const)
      const answer = await this.#finish(state, result, (error) => {
        failure = error
      })
      if (answer !== 'failed') return answer
    } finally {
      this.#leases.drop(this.#lease)
    }
    throw new OutcomeUnknownError(
      'The store did not take what was settled, or its answer got lost. Look at it again when its lease is over.',
      { resource: this.#plan.ref, backend: this.#desk.store.name, cause: failure },
    )
  }

  async #work(work: Work<T>, previous: AbandonedAttempt | null): Promise<Ending<T>> {
    let value: T
    try {
      value = await work(this.#context(previous))
    } catch (error) {
      await this.#fail(error)
      throw error
    }
    if (!this.#discards) return await this.#complete(value, false)
    await this.#finish('released', null)
    return { kind: 'unstored', outcome: this.#outcome(value, false) }
  }

  async #complete(value: T, replayed: boolean): Promise<Ending<T>> {
    const result = await this.#encode(value)
    const answer = await this.#finish('completed', result)
    if (answer === 'stale') return { kind: 'stale' }
    const outcome = this.#outcome(value, replayed)
    return answer === 'done' ? { kind: 'done', outcome, result } : { kind: 'unstored', outcome }
  }

  async #fail(error: unknown): Promise<void> {
    const state = this.#isFinal(error) ? 'failed' : 'released'
    const text = state === 'failed' ? await this.#kept(() => failureOf(error)) : null
    await this.#finish(state, text)
  }

  /** A question that is answered with an error is not answered, and then nothing is final. */
  #isFinal(error: unknown): boolean {
    try {
      return this.#plan.settings.isFinal(error)
    } catch (reason) {
      this.#tell('store-error', { error: reason })
      return false
    }
  }

  /** Tells what became of it. `failed`: the store did not take it, for a reason that `onError` is given. */
  async #finish(
    state: 'completed' | 'failed' | 'released',
    result: string | null,
    onError: (error: unknown) => void = () => {},
  ): Promise<FinishAnswer | 'failed'> {
    const { key, owner, fence } = this.#lease
    const { retentionMs } = this.#plan.settings
    const ask = { key, owner, fence, state, result, retentionMs }
    const answer = await this.#desk.finish(ask, this.#plan.ref, (error) => {
      this.#tell('complete-failed', { error })
      onError(error)
    })
    if (answer === 'done') this.#tell(state)
    // What the work has left running is told, too. After a standstill this may come before the timer of the lease.
    if (answer === 'stale') this.#lease.lose('expired', this.#desk.store.name)
    return answer
  }

  #encode(value: T): Promise<string | null> | null {
    const { keep } = this.#plan.settings
    if (this.#omits || keep === 'none') return null
    return this.#kept(() => (keep === 'whole' ? value : keep.to(value)))
  }

  /** null: it is not kept. The work is over, so whatever is wrong with what came of it is no reason to do it again. */
  async #kept(make: () => unknown): Promise<string | null> {
    try {
      const { codec } = this.#plan.settings
      const made = codec.encode(make(), this.#plan.key)
      const text = checkStorable(typeof made === 'string' ? made : await made)
      const spaceMax =
        this.#desk.store.traits.bytesMax -
        (this.#made?.bytes ?? Buffer.byteLength(this.#claimed.progress ?? ''))
      if (Buffer.byteLength(text) <= spaceMax) return text
      this.#tell('result-not-kept')
    } catch (error) {
      this.#tell('result-not-kept', { error })
    }
    return null
  }

  async #save(progress: string): Promise<FinishAnswer | 'failed'> {
    const { key, owner, fence } = this.#lease
    try {
      const answer = await this.#desk.ask(this.#plan.ref, () =>
        this.#desk.store.save({ key, owner, fence, progress }),
      )
      if (answer === 'stale') this.#lease.lose('expired', this.#desk.store.name)
      return answer
    } catch (error) {
      this.#tell('store-error', { error })
      return 'failed'
    }
  }

  #outcome(value: T, replayed: boolean): Outcome<T> {
    const { fence, attempt, createdAtMs } = this.#claimed
    return { value, replayed, fence, attempt, createdAt: dateOf(createdAtMs) }
  }

  #context(previous: AbandonedAttempt | null): RunContext {
    const { fence, attempt } = this.#claimed
    const lease = this.#lease
    return {
      get signal() {
        return lease.signal
      },
      fence,
      attempt,
      previous,
      step: async (name, run) => await this.#steps.run(name, run),
      childKey: (name) => childKeyOf(this.#plan.key, name),
      discard: () => {
        this.#discards = true
      },
      omitResult: () => {
        this.#omits = true
      },
    }
  }
}

/** The same without a store: nothing is kept, and nothing keeps a second run away. */
export function unprotectedContext<T>(plan: Plan<T>): RunContext {
  const steps = new Steps(
    plan.key,
    plan.settings.codec,
    null,
    async () => 'failed',
    () => {},
  )
  return {
    signal: new AbortController().signal,
    fence: 0n,
    attempt: 1,
    previous: null,
    step: async (name, run) => await steps.run(name, run),
    childKey: (name) => childKeyOf(plan.key, name),
    discard: () => {},
    omitResult: () => {},
  }
}

/** A codec of the caller's own may give what some stores would refuse, and would go on refusing. */
function checkStorable(text: unknown): string {
  if (isStorable(text)) return text
  throw new UnsupportedError(
    'The codec has to give well-formed text without control characters below U+0020.',
  )
}

export function dateOf(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms)
}

export function leaseLost(ref: string, backend: string): LockLostError {
  return new LockLostError('expired', { resource: ref, backend })
}
