import { type Hold, type HoldSummary, PRINTED } from '../core/hold.js'
import type { ReleaseOutcome } from '../core/releaser.js'

/** A hold that stands on another one and adds to it. */
export abstract class DelegatingHold<I extends Hold = Hold> implements Hold {
  protected readonly inner: I

  constructor(inner: I) {
    this.inner = inner
  }

  get resource(): string {
    return this.inner.resource
  }

  get fence(): bigint {
    return this.inner.fence
  }

  get signal(): AbortSignal {
    return this.inner.signal
  }

  get deadline(): number {
    return this.inner.deadline
  }

  get remainingMs(): number {
    return this.inner.remainingMs
  }

  get isHeld(): boolean {
    return this.inner.isHeld
  }

  assertHeld(): void {
    this.inner.assertHeld()
  }

  async extend(ms?: number): Promise<void> {
    await this.inner.extend(ms)
  }

  release(): Promise<ReleaseOutcome> {
    return this.inner.release()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  toJSON(): HoldSummary {
    const { isHeld, remainingMs } = this
    return { ...this.inner.toJSON(), remainingMs: Math.floor(remainingMs), isHeld }
  }

  [PRINTED](): HoldSummary {
    return this.toJSON()
  }
}
