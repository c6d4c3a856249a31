import { systemRuntime } from '../client/system.js'
import { checkFunction, checkInteger, checkKeys } from '../core/options.js'
import {
  AbandonedError,
  InProgressError,
  KeyReusedError,
  ResultNotKeptError,
  TokenRefusedError,
} from '../core/record-errors.js'
import type { ClaimAnswer, RecordStore } from '../core/records.js'
import type { Runtime } from '../core/runtime.js'
import { Attempt, type Claimed, dateOf, leaseLost, unprotectedContext, type Work } from './attempt.js'
import { type Settled, SettledCache } from './cache.js'
import { isHeard, report } from './events.js'
import { replayedFailure } from './failure.js'
import { type Lease, LeaseKeeper } from './lease.js'
import { type Plan, planRun, settingsOf } from './plan.js'
import { codeOf, RecordDesk } from './record-desk.js'
import { type RunLimits, type RunSettings, resolveSettings, type Settings } from './settings.js'
import type {
  IdempotencyEvent,
  IdempotencyOptions,
  Outcome,
  RecordReport,
  RunOptions,
  Target,
} from './types.js'

/** Stores that do not forget by themselves are swept a little, now and then. */
const PURGE_EVERY_CLAIMS = 512
const PURGE_MAX = 256

/** Whoever waits for somebody else's work asks soon at first, and then less and less often. */
const ASK_FIRST_MS = 10
const ASK_LAST_MS = 250

/** Opens idempotency over a ready store of records. `connectIdempotency()` does the same from a URL. */
export async function createIdempotency(
  store: RecordStore,
  options: IdempotencyOptions = {},
  runtime: Runtime = systemRuntime,
): Promise<Idempotency> {
  await store.open()
  try {
    return new Idempotency(store, resolveSettings(options, store.traits, store.name), runtime)
  } catch (error) {
    await store.close()
    throw error
  }
}

/** How an abandoned record is settled by somebody who has found out what came of it. */
export type Resolution = { readonly complete: unknown } | { readonly release: true }

/** The same request twice, the effect once. */
export class Idempotency implements AsyncDisposable {
  readonly #desk: RecordDesk
  readonly #settings: Settings
  readonly #limits: RunLimits
  readonly #leases: LeaseKeeper
  readonly #cache: SettledCache | null
  #claims = 0

  constructor(store: RecordStore, settings: Settings, runtime: Runtime) {
    this.#settings = settings
    this.#limits = { traits: store.traits, store: store.name, allowVolatile: settings.allowVolatile }
    this.#desk = new RecordDesk(store, runtime, settings.requestMs)
    this.#leases = new LeaseKeeper(
      store,
      runtime,
      settings.requestMs,
      (lease) => tell(lease.ref, 'lease-lost'),
      (error) => tell('', 'store-error', { error }),
    )
    const { localCache } = settings
    this.#cache =
      localCache === null
        ? null
        : new SettledCache(localCache.max, localCache.ttlMs, () => this.#desk.nowMs())
  }

  /** The store of records, for those who need more of it than idempotency. */
  get store(): RecordStore {
    return this.#desk.store
  }

  /**
   * Runs the work unless it was done before, and then gives what came of it. Rejects with `InProgressError` while somebody
   * else is at it, and with `KeyReusedError` if the key stands for another input.
   */
  async run<T>(target: Target, work: Work<T>, options?: RunOptions<T>): Promise<Outcome<T>> {
    checkFunction(work, 'work')
    return await this.play(planRun(target, options, this.#settings, this.#limits), work)
  }

  /** A function that does the same for each of its calls. */
  wrap<Args extends readonly unknown[], T>(
    targetOf: (...args: Args) => Target,
    work: (...args: Args) => Promise<T> | T,
    options?: RunOptions<T>,
  ): (...args: Args) => Promise<T> {
    checkFunction(targetOf, 'targetOf')
    checkFunction(work, 'work')
    return async (...args) => (await this.run(targetOf(...args), () => work(...args), options)).value
  }

  /** What is known of a key; null: nothing. */
  async inspect(target: Pick<Target, 'scope' | 'key'>): Promise<RecordReport | null> {
    const { key, ref } = this.#plan(target)
    const view = await this.#desk.ask(ref, () => this.#desk.store.read(key))
    if (view === null) return null
    const { attempt, fence, leaseMs } = view
    const state = view.state === 'in-progress' && leaseMs === 0 ? 'abandoned' : view.state
    return { id: ref, state, attempt, fence, createdAt: dateOf(view.createdAtMs), leaseMs }
  }

  /**
   * For whoever has found out what came of abandoned work: settles it with its result, or lets it be done again. false:
   * there is nothing to settle. Rejects with `InProgressError` while its owner is at work.
   */
  async resolve(target: Pick<Target, 'scope' | 'key'>, resolution: Resolution): Promise<boolean> {
    checkKeys(resolution, 'complete' in resolution ? ['complete'] : ['release'], 'resolution')
    const plan = this.#plan<unknown>(target)
    const won = await this.#win({
      ...plan,
      onlyIssued: true,
      settings: { ...plan.settings, onAbandoned: 'retry', waitMs: 0 },
    }).catch((error: unknown) => {
      if (codeOf(error) === 'TOKEN_REFUSED') return null
      throw error
    })
    if (won === null || won.kind === 'settled') return false
    const ending = await this.#attempt(plan, won).play((context) => {
      if ('complete' in resolution) return resolution.complete
      context.discard()
      return undefined
    })
    return ending.kind !== 'stale'
  }

  /** For operators: removes what is known of a key, whatever that is. The next call runs. */
  async forget(target: Pick<Target, 'scope' | 'key'>): Promise<boolean> {
    const { key, ref } = this.#plan(target)
    this.#cache?.drop(key)
    return await this.#desk.ask(ref, () => this.#desk.store.forget(key))
  }

  /** Removes up to `max` records whose time is over, and says how many; 0 where the store does that itself. */
  async purge(max = 1_000): Promise<number> {
    checkInteger(max, 'max', 1, 1_000_000)
    return (await this.#desk.store.purge?.(max)) ?? 0
  }

  /** Makes the table that the store needs, or brings it up to date; a store that needs none does nothing. */
  async migrate(): Promise<void> {
    await this.#desk.store.migrate?.()
  }

  /** Work that is under way is told to stop by its signal. Idempotent. */
  async close(): Promise<void> {
    this.#desk.close()
    this.#leases.stop()
    await this.#desk.store.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** One run by its plan. Tokens make plans of their own. */
  async play<T>(plan: Plan<T>, work: Work<T>): Promise<Outcome<T>> {
    this.#desk.checkOpen()
    const known = this.#cache?.get(plan.key, plan.fingerprint) ?? null
    if (known !== null) return await this.#replay(plan, known)
    let won: Won | Settled
    try {
      won = await this.#win(plan)
    } catch (error) {
      if (plan.settings.storeDown === 'refuse' || !isOutage(error)) throw error
      tell(plan.ref, 'unprotected', { error })
      return {
        value: await work(unprotectedContext(plan)),
        replayed: false,
        fence: 0n,
        attempt: 1,
        createdAt: null,
      }
    }
    if (won.kind === 'settled') return await this.#replay(plan, won)
    const ending = await this.#attempt(plan, won).play(work)
    if (ending.kind === 'stale') return await this.#overtaken(plan)
    if (ending.kind === 'done') this.#remember(plan, ending.outcome, ending.result)
    return ending.outcome
  }

  /** One request to the store, with a deadline. */
  async ask<T>(ref: string, request: (store: RecordStore) => Promise<T>): Promise<T> {
    this.#desk.checkOpen()
    return await this.#desk.ask(ref, () => request(this.#desk.store))
  }

  /** What options mean here, for those who make plans of their own. */
  settingsOf<T>(options: RunOptions<T> | undefined): RunSettings<T> {
    return settingsOf(options, this.#settings, this.#limits)
  }

  #plan<T>(target: Pick<Target, 'scope' | 'key'>): Plan<T> {
    this.#desk.checkOpen()
    return planRun<T>(target, undefined, this.#settings, this.#limits)
  }

  #attempt<T>(plan: Plan<T>, { lease, claimed }: Won): Attempt<T> {
    return new Attempt(this.#desk, this.#leases, plan, lease, claimed, (type, more) => {
      tell(plan.ref, type, { attempt: claimed.attempt, ...more })
    })
  }

  /** Claims the record, or finds out what stands in the way. */
  async #win<T>(plan: Plan<T>): Promise<Won | Settled> {
    const { waitMs, leaseMs, retentionMs, onAbandoned, signal } = plan.settings
    const { key, ref, fingerprint, onlyIssued } = plan
    const until = this.#desk.nowMs() + waitMs
    let pauseMs = ASK_FIRST_MS
    for (;;) {
      const owner = this.#desk.runtime.random.id()
      const departure = this.#leases.departure()
      const takeOver = onAbandoned !== 'block'
      const ask = { key, owner, fingerprint, leaseMs, retentionMs, takeOver, onlyIssued }
      const answer = await this.#desk.claim(ask, ref)
      if (answer.kind === 'claimed') return this.#won(plan, owner, answer, departure)
      if (answer.kind === 'settled') return answer
      const error = this.#refusal(plan, answer)
      const leftMs = until - this.#desk.nowMs()
      if (answer.kind !== 'in-progress' || leftMs <= 0) throw error
      const jitter = 0.75 + this.#desk.runtime.random.fraction() / 2
      await this.#desk.pause(Math.min(pauseMs * jitter, leftMs, answer.leaseMs + 1), signal)
      pauseMs = Math.min(pauseMs * 1.5, ASK_LAST_MS)
    }
  }

  #won<T>(plan: Plan<T>, owner: string, claimed: Claimed, departure: Departure): Won {
    const claim = { key: plan.key, owner, fence: claimed.fence }
    const lease = this.#leases.keep(claim, claimed.leaseMs, departure, plan.settings, plan.ref)
    if (lease === null) {
      const ask = {
        ...claim,
        state: 'released',
        result: null,
        retentionMs: plan.settings.retentionMs,
      } as const
      void this.#desk.finish(ask, plan.ref, (error) => tell(plan.ref, 'store-error', { error }))
      throw leaseLost(plan.ref, this.#desk.store.name)
    }
    tell(plan.ref, claimed.tookOver ? 'takeover' : 'claimed', { attempt: claimed.attempt })
    this.#purgeNowAndThen()
    return { kind: 'won', lease, claimed }
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

  async #replay<T>(plan: Plan<T>, settled: Settled): Promise<Outcome<T>> {
    const { key, ref, settings } = plan
    const { state, result, fence, attempt, createdAtMs } = settled
    this.#cache?.put(key, plan.fingerprint, settled, settings.retentionMs)
    tell(ref, 'replayed', { attempt })
    const context = { resource: ref, backend: this.#desk.store.name }
    if (result === null) throw new ResultNotKeptError(context)
    const kept: unknown = await settings.codec.decode(result, key)
    if (state === 'failed') throw replayedFailure(kept, ref, this.#desk.store.name)
    const value = typeof settings.keep === 'object' ? await settings.keep.from(kept) : (kept as T)
    return { value, replayed: true, fence, attempt, createdAt: dateOf(createdAtMs) }
  }

  /** Somebody has taken the work over. What they made of it is the outcome, if they have one already. */
  async #overtaken<T>(plan: Plan<T>): Promise<Outcome<T>> {
    tell(plan.ref, 'stale')
    const lost = leaseLost(plan.ref, this.#desk.store.name)
    if (plan.settings.onStale === 'throw') throw lost
    const view = await this.#desk.ask(plan.ref, () => this.#desk.store.read(plan.key))
    if (view === null || (view.state !== 'completed' && view.state !== 'failed')) throw lost
    const { state, fence, attempt, result, createdAtMs } = view
    return await this.#replay(plan, { kind: 'settled', state, fence, attempt, result, createdAtMs })
  }

  #remember<T>(plan: Plan<T>, { fence, attempt, createdAt }: Outcome<T>, result: string | null): void {
    const createdAtMs = createdAt?.getTime() ?? null
    const settled = { kind: 'settled', state: 'completed', fence, attempt, result, createdAtMs } as const
    this.#cache?.put(plan.key, plan.fingerprint, settled, plan.settings.retentionMs)
  }

  #purgeNowAndThen(): void {
    this.#claims += 1
    const { store } = this.#desk
    if (this.#claims % PURGE_EVERY_CLAIMS !== 0 || store.purge === undefined) return
    store.purge(PURGE_MAX).catch((error: unknown) => tell('', 'purge-failed', { error }))
  }
}

interface Won {
  readonly kind: 'won'
  readonly lease: Lease
  readonly claimed: Claimed
}

type Departure = ReturnType<LeaseKeeper['departure']>

function isOutage(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'BACKEND_UNAVAILABLE' || code === 'OUTCOME_UNKNOWN'
}

function tell(ref: string, type: IdempotencyEvent['type'], more?: Partial<IdempotencyEvent>): void {
  if (!isHeard()) return
  const hash = ref.lastIndexOf('#')
  report({ type, operation: ref.slice(0, Math.max(0, hash)), ref: ref.slice(hash + 1), ...more })
}
