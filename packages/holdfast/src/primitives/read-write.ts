import type { Desk } from '../core/desk.js'
import type { Hold, StoreHold } from '../core/hold.js'
import { LIMIT_MAX } from '../core/line.js'
import { checkName } from '../core/names.js'
import { defaultHold, type HoldOptions, resolveHold } from '../core/options.js'
import { DelegatingHold } from './delegating-hold.js'
import { Lock, type LockDefinition } from './lock.js'

const SHAPE = { kind: 'read-write', limit: LIMIT_MAX } as const

/** Many readers or one writer, in order of arrival: a waiting writer is not overtaken by later readers. */
export class ReadWrite {
  readonly name: string
  readonly #desk: Desk
  readonly #definition: LockDefinition

  constructor(desk: Desk, name: string, options: HoldOptions = {}) {
    const settings = resolveHold(options, defaultHold(desk.settings), desk.limits)
    this.name = checkName(name, 'name', desk.limits.nameBytesMax)
    desk.requireShape(SHAPE)
    this.#desk = desk
    this.#definition = { name: this.name, shape: SHAPE, weight: 1, settings }
  }

  read(): ReadLock {
    return new ReadLock(this.#desk, this.#definition)
  }

  write(): WriteLock {
    return new WriteLock(this.#desk, { ...this.#definition, weight: LIMIT_MAX })
  }
}

export class ReadLock extends Lock<Hold> {
  protected override wrap(hold: StoreHold): Hold {
    return hold
  }
}

export class WriteLock extends Lock<WriteHold> {
  protected override wrap(hold: StoreHold): WriteHold {
    return new WriteHold(this.desk, hold)
  }
}

export class WriteHold extends DelegatingHold<StoreHold> {
  readonly #desk: Desk

  constructor(desk: Desk, hold: StoreHold) {
    super(hold)
    this.#desk = desk
  }

  /**
   * Becomes a reader without letting another writer in between. This hold is over from the moment of the call, and the
   * returned one takes its place; if the store does not answer, neither is held. Releasing this hold releases the returned
   * one, too, so `run()` and `await using` leave nothing behind.
   */
  async downgrade(): Promise<Hold> {
    return await this.#desk.lighten(this.inner, 1)
  }
}
