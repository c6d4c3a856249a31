import type { HolderNote, ResourceView, Shape } from '../core/backend.js'
import type { Desk } from '../core/desk.js'
import { AcquireTimeoutError } from '../core/errors.js'
import type { Hold, StoreHold } from '../core/hold.js'
import { type AcquireOptions, checkFunction, type HoldSettings, resolveAcquire } from '../core/options.js'
import type { Refusal, Wish } from '../core/waiters.js'
import { runUnder } from './run-under.js'

/** What every primitive offers: the definition of a lock, not the holding of it. */
export interface Lockable<H, O extends AcquireOptions = AcquireOptions> {
  readonly name: string
  /**
   * Waits and gives a hold. After `waitMs` it rejects with `AcquireTimeoutError` if others hold the lock, and with
   * `BackendUnavailableError` if the store does not answer. On abort it rejects with `signal.reason`.
   */
  acquire(options?: O): Promise<H>
  /**
   * Like `acquire`, but returns null instead of `AcquireTimeoutError`, and by default does not wait. null means that others
   * hold the lock: a store that does not answer rejects here, too.
   */
  tryAcquire(options?: O): Promise<H | null>
  /**
   * Waits, runs `fn`, releases. The error of `fn` always wins. If the lock was lost before `fn` ended, the call rejects with
   * `LockLostError`, also where that shows only at the release.
   */
  run<T>(fn: (hold: H) => T | PromiseLike<T>, options?: O): Promise<T>
}

/** What came of `runIfFree()`. */
export type IfFree<T> = { readonly ran: true; readonly value: T } | { readonly ran: false }

/** What distinguishes one primitive from another for the store. */
export interface LockDefinition {
  readonly name: string
  readonly shape: Shape
  readonly weight: number
  readonly settings: HoldSettings
  /** Whether a claim may pass on between callers of this process without asking the store. Default true. */
  readonly handsOver?: boolean
}

/** The one implementation: primitives differ in shape and weight, and in what they make of the hold. */
export abstract class Lock<H extends Hold, O extends AcquireOptions = AcquireOptions>
  implements Lockable<H, O>
{
  protected readonly desk: Desk
  protected readonly definition: LockDefinition

  constructor(desk: Desk, definition: LockDefinition) {
    this.desk = desk
    this.definition = definition
  }

  get name(): string {
    return this.definition.name
  }

  async acquire(options?: O): Promise<H> {
    const result = await this.claim(this.wishOf(options, this.definition.settings.waitMs))
    if (!isRefusal(result)) return result
    const { waitedMs, holder } = result
    const context = { resource: this.name, backend: this.desk.backend.name }
    throw new AcquireTimeoutError(waitedMs, holder, context, this.hintFor(holder))
  }

  async tryAcquire(options?: O): Promise<H | null> {
    const result = await this.claim(this.wishOf(options, 0))
    return isRefusal(result) ? null : result
  }

  async run<T>(fn: (hold: H) => T | PromiseLike<T>, options?: O): Promise<T> {
    checkFunction(fn, 'fn')
    const { flows } = this.desk
    if (flows === null) return await runUnder(await this.acquire(options), fn)
    const flow = flows.begin()
    const hold = await flows.acquiring(flow, () => this.acquire(options))
    return await runUnder(hold, (held) => flows.holding(flow, [held], () => fn(held)))
  }

  /**
   * Like `run`, but does nothing if others hold the lock: `{ ran: false }`. With `waitMs` it waits that long first. For work that
   * one process is to do and the others are to leave to it.
   */
  async runIfFree<T>(fn: (hold: H) => T | PromiseLike<T>, options?: O): Promise<IfFree<T>> {
    checkFunction(fn, 'fn')
    // `fn` may time out on another lock, which is an error of its own.
    let began = false
    const begin = (hold: H): T | PromiseLike<T> => {
      began = true
      return fn(hold)
    }
    try {
      return { ran: true, value: await this.run(begin, { ...options, waitMs: options?.waitMs ?? 0 } as O) }
    } catch (error) {
      if (!began && error instanceof AcquireTimeoutError) return { ran: false }
      throw error
    }
  }

  /** Whether anybody holds it now. It may be otherwise a moment later, so use it to show, and `tryAcquire()` to decide. */
  async isLocked(): Promise<boolean> {
    const { holders } = await this.inspect()
    return holders.length > 0
  }

  /** Who holds it and who waits, in order. */
  async inspect(): Promise<ResourceView> {
    return await this.desk.inspect(this.name)
  }

  /** What a caller who did not get it may have overlooked. */
  protected hintFor(_holder: HolderNote | null): string {
    return ''
  }

  /** Turns the store's hold into the primitive's own. */
  protected abstract wrap(hold: StoreHold): H

  protected weightOf(_options: O): number {
    return this.definition.weight
  }

  /** Keys that the primitive takes beyond the common ones. */
  protected get extraKeys(): readonly string[] {
    return []
  }

  /** Throws at once where the options are wrong; its callers are async, so theirs see a rejection. */
  protected wishOf(options: O | undefined, waitMs: number | null): Wish {
    const { weight, settings: own, handsOver: mayInherit = true } = this.definition
    const base = waitMs === own.waitMs ? own : { ...own, waitMs }
    if (options === undefined) return { weight, settings: base, mayInherit }
    const settings = resolveAcquire(options, base, this.desk.limits, this.extraKeys)
    return { settings, weight: this.weightOf(options), mayInherit }
  }

  protected claim(wish: Wish): Promise<H | Refusal> {
    const { name, shape } = this.definition
    return this.desk
      .acquire(name, shape, wish)
      .then((result) => (isRefusal(result) ? result : this.wrap(result)))
  }
}

export function isRefusal(result: object): result is Refusal {
  return 'refused' in result
}
