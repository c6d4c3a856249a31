import type { HolderNote } from '../core/backend.js'
import type { Desk } from '../core/desk.js'
import { InvalidInputError } from '../core/errors.js'
import type { Hold, StoreHold } from '../core/hold.js'
import { checkName } from '../core/names.js'
import {
  type AcquireOptions,
  checkBoolean,
  checkFunction,
  defaultHold,
  type HoldOptions,
  resolveHold,
} from '../core/options.js'
import type { Refusal, Wish } from '../core/waiters.js'
import { Lock } from './lock.js'
import { flowWith, heldInFlow, ReenteredHold } from './reentrancy.js'

export interface MutexOptions extends HoldOptions {
  /**
   * true: an async flow that has the lock, because it runs inside `run()` or `within()`, enters it again at no cost.
   * Default false: the same flow waits for itself, for ever or until `waitMs`.
   */
  readonly reentrant?: boolean
}

const SHAPE = { kind: 'mutex', limit: 1 } as const

/** One holder at a time. */
export class Mutex extends Lock<Hold> {
  readonly #reentrant: boolean

  constructor(desk: Desk, name: string, options: MutexOptions = {}) {
    const settings = resolveHold(options, defaultHold(desk.settings), desk.limits, ['reentrant'])
    super(desk, {
      name: checkName(name, 'name', desk.limits.nameBytesMax),
      shape: SHAPE,
      weight: 1,
      settings,
    })
    this.#reentrant = options.reentrant === undefined ? false : checkBoolean(options.reentrant, 'reentrant')
  }

  override async run<T>(fn: (hold: Hold) => T | PromiseLike<T>, options?: AcquireOptions): Promise<T> {
    if (!this.#reentrant) return await super.run(fn, options)
    checkFunction(fn, 'fn')
    return await super.run((hold) => flowWith(this.desk, hold, () => fn(hold)), options)
  }

  /** Runs `fn` as part of the flow that has `hold`, for code that acquires without `run()` and wants to re-enter. */
  within<T>(hold: Hold, fn: () => T): T {
    checkFunction(fn, 'fn')
    checkHold(hold)
    hold.assertHeld()
    const { flows } = this.desk
    const inFlow = (): T => flowWith(this.desk, hold, fn)
    return flows === null ? inFlow() : flows.within(hold, inFlow)
  }

  protected override claim(wish: Wish): Promise<Hold | Refusal> {
    const outer = this.#reentrant ? heldInFlow(this.desk, this.name) : null
    if (outer === null) return super.claim(wish)
    const { signal } = wish.settings
    return signal?.aborted ? Promise.reject(signal.reason) : Promise.resolve(new ReenteredHold(outer))
  }

  protected override hintFor(holder: HolderNote | null): string {
    if (this.#reentrant || holder?.owner.client !== this.desk.owner.client) return ''
    return (
      ' This client holds it itself: if the same call waits inside its own `run()`, make the mutex with ' +
      '`{ reentrant: true }`.'
    )
  }

  protected override wrap(hold: StoreHold): Hold {
    return hold
  }
}

function checkHold(value: unknown): void {
  const usable = typeof value === 'object' && value !== null && 'assertHeld' in value && 'fence' in value
  if (!usable) throw new InvalidInputError('hold', 'a hold of this lock', value)
}
