import { systemRuntime } from '../client/system.js'
import { checkFunction, checkInteger, checkKeys } from '../core/options.js'
import { ResultNotKeptError } from '../core/record-errors.js'
import type { RecordStore } from '../core/records.js'
import type { Runtime } from '../core/runtime.js'
import { Attempt, dateOf, leaseLost, unprotectedContext, type Work } from './attempt.js'
import { type Settled, SettledCache } from './cache.js'
import { Claiming, type Won } from './claiming.js'
import { isHeard, tell } from './events.js'
import { replayedFailure } from './failure.js'
import { LeaseKeeper } from './lease.js'
import { type Plan, planRun, settingsOf } from './plan.js'
import { codeOf, RecordDesk } from './record-desk.js'
import { reportedRun } from './run-report.js'
import { type RunLimits, type RunSettings, resolveSettings, type Settings } from './settings.js'
import type { IdempotencyOptions, Outcome, RecordReport, RunOptions, Target } from './types.js'

/** Opens idempotency over a ready store of records. `connectIdempotency()` does the same from a URL. */
export async function createIdempotency(
  store: RecordStore,
  options: IdempotencyOptions = {},
  runtime: Runtime = systemRuntime,
): Promise<Idempotency> {
  // Its connections serve every caller, and outlive the request that happens to be the first.
  await runtime.contexts.outside(() => store.open())
  try {
    return new Idempotency(store, resolveSettings(options, store.traits, store.name), runtime)
  } catch (error) {
    await store.close()
    throw error
  }
}

/** How an abandoned record is settled by somebody who has found out what came of it. */
export type Resolution<T = unknown> = { readonly complete: T } | { readonly release: true }

/** The same request twice, the effect once. */
export class Idempotency implements AsyncDisposable {
  readonly #desk: RecordDesk
  readonly #settings: Settings
  readonly #limits: RunLimits
  readonly #leases: LeaseKeeper
  readonly #claiming: Claiming
  readonly #cache: SettledCache | null

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
    this.#claiming = new Claiming(this.#desk, this.#leases)
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
   * For whoever has found out what came of abandoned work: settles it with its result, or lets it be done again. Give the
   * options that the work is run with: the result is kept as they say. false: there is nothing to settle. Rejects with
   * `InProgressError` while its owner is at work, and with `OutcomeUnknownError` if the store did not take it.
   */
  async resolve<T = unknown>(
    target: Pick<Target, 'scope' | 'key'>,
    resolution: Resolution<T>,
    options?: RunOptions<T>,
  ): Promise<boolean> {
    checkKeys(resolution, 'complete' in resolution ? ['complete'] : ['release'], 'resolution')
    const plan = this.#plan(target, options)
    const won = await this.#claiming
      .win({
        ...plan,
        onlyIssued: true,
        settings: { ...plan.settings, onAbandoned: 'retry', waitMs: 0 },
      })
      .catch((error: unknown) => {
        if (codeOf(error) === 'TOKEN_REFUSED') return null
        throw error
      })
    if (won?.kind === 'unanswered') throw won.error
    if (won === null || won.kind === 'settled') return false
    const known = 'complete' in resolution ? { value: resolution.complete } : null
    return (await this.#attempt(plan, won).settle(known)) === 'done'
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
  play<T>(plan: Plan<T>, work: Work<T>): Promise<Outcome<T>> {
    if (!isHeard()) return this.#play(plan, work)
    const { store, runtime } = this.#desk
    return reportedRun(plan, store.name, runtime.clock, work, (watched) => this.#play(plan, watched))
  }

  async #play<T>(plan: Plan<T>, work: Work<T>): Promise<Outcome<T>> {
    this.#desk.checkOpen()
    const known = this.#cache?.get(plan.key, plan.fingerprint?.text ?? null) ?? null
    if (known !== null) return await this.#replay(plan, known)
    const won = await this.#claiming.win(plan)
    if (won.kind === 'unanswered') return await this.#withoutStore(plan, work, won.error)
    if (won.kind === 'settled') return await this.#replay(plan, this.#remembered(plan, won))
    const ending = await this.#attempt(plan, won).play(work)
    if (ending.kind === 'stale') return await this.#overtaken(plan)
    if (ending.kind === 'done') {
      const { fence, attempt, createdAt } = ending.outcome
      const createdAtMs = createdAt?.getTime() ?? null
      const { result } = ending
      this.#remembered(plan, { kind: 'settled', state: 'completed', fence, attempt, result, createdAtMs })
    }
    return ending.outcome
  }

  async #withoutStore<T>(plan: Plan<T>, work: Work<T>, error: unknown): Promise<Outcome<T>> {
    if (plan.settings.storeDown === 'refuse') throw error
    // A store that was closed meanwhile is no outage.
    this.#desk.checkOpen()
    tell(plan.ref, 'unprotected', { error })
    const value = await work(unprotectedContext(plan))
    return { value, replayed: false, fence: 0n, attempt: 1, createdAt: null }
  }

  /** One request to the store, with a deadline. */
  async ask<T>(ref: string, request: (store: RecordStore) => Promise<T>): Promise<T> {
    this.#desk.checkOpen()
    return await this.#desk.ask(ref, () => request(this.#desk.store))
  }

  /**
   * The same for what must not get lost: it is asked again for as long as a completion is. Whatever goes wrong is given to
   * `onError`; the answer is `failed` then.
   */
  async insist<T>(
    ref: string,
    request: (store: RecordStore) => Promise<T>,
    onError: (error: unknown) => void,
  ): Promise<T | 'failed'> {
    return await this.#desk.insist(ref, () => request(this.#desk.store), onError)
  }

  /** What options mean here, for those who make plans of their own. */
  settingsOf<T>(options: RunOptions<T> | undefined): RunSettings<T> {
    return settingsOf(options, this.#settings, this.#limits)
  }

  #plan<T>(target: Pick<Target, 'scope' | 'key'>, options?: RunOptions<T>): Plan<T> {
    this.#desk.checkOpen()
    return planRun<T>(target, options, this.#settings, this.#limits)
  }

  #attempt<T>(plan: Plan<T>, { lease, claimed }: Won): Attempt<T> {
    return new Attempt(this.#desk, this.#leases, plan, lease, claimed, (type, more) => {
      tell(plan.ref, type, { attempt: claimed.attempt, ...more })
    })
  }

  async #replay<T>(plan: Plan<T>, settled: Settled): Promise<Outcome<T>> {
    const { key, ref, settings } = plan
    const { state, result, fence, attempt, createdAtMs } = settled
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
    // The record may have been removed, and the key been used for something else, whose result is not this one's.
    if (plan.fingerprint?.compare(view.fingerprint) === 'other') throw lost
    const { state, fence, attempt, result, createdAtMs } = view
    const settled = { kind: 'settled', state, fence, attempt, result, createdAtMs } as const
    return await this.#replay(plan, this.#remembered(plan, settled))
  }

  /** Only what the store has just said is remembered: what is remembered already must come to its end. */
  #remembered<T>(plan: Plan<T>, settled: Settled): Settled {
    this.#cache?.put(plan.key, plan.fingerprint?.text ?? null, settled, plan.settings.retentionMs)
    return settled
  }
}
