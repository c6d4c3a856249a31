import { pause, unlessAborted } from '../core/abort-listeners.js'
import type { ClaimView, Owner } from '../core/backend.js'
import type { Desk } from '../core/desk.js'
import type { StoreHold } from '../core/hold.js'
import { checkName } from '../core/names.js'
import {
  type AcquireOptions,
  checkKeys,
  checkMs,
  checkSignal,
  defaultHold,
  type HoldOptions,
  resolveHold,
} from '../core/options.js'
import type { ReleaseOutcome } from '../core/releaser.js'
import { DelegatingHold } from './delegating-hold.js'
import { Lock } from './lock.js'

/** Who leads, as everybody may know it. */
export interface Leader {
  readonly owner: Owner
  /** What the leader said of itself when it campaigned: an address, a version. */
  readonly note: string | null
  readonly fence: bigint | null
  /** Tells two leaderships apart, also two of the same process. */
  readonly ref: string
}

export interface ObserveOptions {
  /** How often to look. Default 500. */
  readonly everyMs?: number
  /** Ends the observation; the loop then throws the signal's reason. */
  readonly signal?: AbortSignal
}

const SHAPE = { kind: 'mutex', limit: 1 } as const

/** One leader at a time, for as long as it lives and wants to be. */
export class Election extends Lock<Leadership> {
  constructor(desk: Desk, name: string, options: HoldOptions = {}) {
    // A candidate waits for as long as another one leads, which has nothing to do with how long callers wait for a lock.
    const settings = resolveHold(options, { ...defaultHold(desk.settings), waitMs: null }, desk.limits)
    super(desk, {
      name: checkName(name, 'name', desk.limits.nameBytesMax),
      shape: SHAPE,
      weight: 1,
      settings,
      // Every leadership is a claim of its own, because other processes tell leaders apart by what the store shows.
      handsOver: false,
    })
  }

  /** Waits to become the leader. Give a `note` that tells the others how to reach you. */
  async campaign(options?: AcquireOptions): Promise<Leadership> {
    return await this.acquire(options)
  }

  /** Who leads now; null if nobody does. A leader seen here may have lost the office since: act on fences, not on this. */
  async leader(): Promise<Leader | null> {
    const { holders } = await this.inspect()
    return asLeader(holders[0])
  }

  /** The leader now, and then every change. Changes that come and go between two looks are not seen. */
  async *observe(options: ObserveOptions = {}): AsyncGenerator<Leader | null, void, undefined> {
    checkKeys(options, ['everyMs', 'signal'])
    const everyMs = options.everyMs === undefined ? 500 : checkMs(options.everyMs, 'everyMs', 1)
    const signal = options.signal === undefined ? null : checkSignal(options.signal)
    let last: Leader | null | undefined
    for (;;) {
      signal?.throwIfAborted()
      const leader = await unlessAborted(signal, this.leader())
      if (last === undefined || leader?.ref !== last?.ref) yield leader
      last = leader
      await pause(this.desk.runtime.timers, everyMs, signal)
    }
  }

  protected override wrap(hold: StoreHold): Leadership {
    return new Leadership(hold)
  }
}

/** The office, held. Its signal aborts before another can lead. */
export class Leadership extends DelegatingHold {
  /** Steps down, so that the next candidate leads at once. */
  async resign(): Promise<ReleaseOutcome> {
    return await this.release()
  }
}

function asLeader(claim: ClaimView | undefined): Leader | null {
  if (claim === undefined) return null
  const { owner, note, fence, ref } = claim
  return { owner, note, fence, ref }
}
