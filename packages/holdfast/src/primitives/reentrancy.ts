import { AsyncLocalStorage } from 'node:async_hooks'
import type { Desk } from '../core/desk.js'
import { NotHeldError } from '../core/errors.js'
import type { Hold } from '../core/hold.js'
import type { ReleaseOutcome } from '../core/releaser.js'
import { DelegatingHold } from './delegating-hold.js'

/** One lock that the present async flow has, and the flow it was taken in. */
interface Frame {
  readonly desk: Desk
  readonly resource: string
  readonly hold: Hold
  readonly outer: Frame | undefined
}

const flow = new AsyncLocalStorage<Frame>()

/** Runs `fn` as a flow that has the hold. What it starts and leaves running has it too, until the hold is over. */
export function flowWith<T>(desk: Desk, hold: Hold, fn: () => T): T {
  return flow.run({ desk, resource: hold.resource, hold, outer: flow.getStore() }, fn)
}

/**
 * The hold of the resource that the present flow has, if it is still good. The hold itself is asked, so work that was
 * forked off and lives longer than the hold inherits nothing.
 */
export function heldInFlow(desk: Desk, resource: string): Hold | null {
  for (let frame = flow.getStore(); frame !== undefined; frame = frame.outer) {
    if (frame.desk === desk && frame.resource === resource && frame.hold.isHeld) return frame.hold
  }
  return null
}

/** One more entry into a lock that the flow has. Giving it back frees nothing: the outermost hold does that. */
export class ReenteredHold extends DelegatingHold {
  #released = false

  override get isHeld(): boolean {
    return !this.#released && super.isHeld
  }

  override get remainingMs(): number {
    return this.#released ? 0 : super.remainingMs
  }

  override assertHeld(): void {
    this.#refuseReleased()
    super.assertHeld()
  }

  override async extend(ms?: number): Promise<void> {
    this.#refuseReleased()
    await super.extend(ms)
  }

  override release(): Promise<ReleaseOutcome> {
    this.#released = true
    return Promise.resolve('released')
  }

  #refuseReleased(): void {
    if (this.#released) throw new NotHeldError({ resource: this.resource })
  }
}
