import type { Desk } from '../core/desk.js'
import type { Hold, StoreHold } from '../core/hold.js'
import { LIMIT_MAX } from '../core/line.js'
import { checkName } from '../core/names.js'
import {
  type AcquireOptions,
  checkInteger,
  defaultHold,
  type HoldOptions,
  resolveHold,
} from '../core/options.js'
import { Lock } from './lock.js'

export interface SemaphoreAcquireOptions extends AcquireOptions {
  /** How many of the permits this holding takes. Default 1. */
  readonly permits?: number
}

/** Up to `limit` permits held at once, given in order of arrival: a large wish is not starved by small ones. */
export class Semaphore extends Lock<Hold, SemaphoreAcquireOptions> {
  readonly limit: number

  constructor(desk: Desk, name: string, limit: number, options: HoldOptions = {}) {
    const settings = resolveHold(options, defaultHold(desk.settings), desk.limits)
    const shape = { kind: 'semaphore', limit: checkInteger(limit, 'limit', 1, LIMIT_MAX) } as const
    desk.requireShape(shape)
    super(desk, { name: checkName(name, 'name', desk.limits.nameBytesMax), shape, weight: 1, settings })
    this.limit = limit
  }

  protected override get extraKeys(): readonly string[] {
    return ['permits']
  }

  protected override weightOf({ permits = 1 }: SemaphoreAcquireOptions): number {
    const weight = checkInteger(permits, 'permits', 1, this.limit)
    this.desk.requireWeight(weight)
    return weight
  }

  protected override wrap(hold: StoreHold): Hold {
    return hold
  }
}
