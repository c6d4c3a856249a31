import type { AcquireOptions, Hold, Lockable, LockLostError, ReleaseOutcome } from 'holdfast'
import type { EventValue } from '../history/format.js'
import { microsAt, nowMicros } from '../history/recorder.js'
import { type Caller, judge } from './caller.js'
import { describeError } from './diary.js'

/** How a lock is asked for, as the history says it. */
export interface Wanted {
  readonly mode?: 'shared'
  readonly weight?: number
}

/** A lock of one caller that writes down every call before it is made and after it has come back. */
export class RecordedLock<O extends AcquireOptions = AcquireOptions> implements Lockable<RecordedHold, O> {
  readonly #inner: Lockable<Hold, O>
  readonly #caller: Caller
  /** The name in the history, which is short. */
  readonly #short: string
  readonly #wanted: Wanted
  readonly #fenced: boolean

  constructor(inner: Lockable<Hold, O>, caller: Caller, short: string, fenced: boolean, wanted: Wanted = {}) {
    this.#inner = inner
    this.#caller = caller
    this.#short = short
    this.#fenced = fenced
    this.#wanted = wanted
  }

  get name(): string {
    return this.#inner.name
  }

  async acquire(options?: O): Promise<RecordedHold> {
    const held = await this.#call(options?.waitMs ?? null, () => this.#inner.acquire(options))
    if (held === null) throw new Error('A lock that was waited for gave nothing.')
    return held
  }

  async tryAcquire(options?: O): Promise<RecordedHold | null> {
    return await this.#call(options?.waitMs ?? 0, () => this.#inner.tryAcquire(options))
  }

  async run<T>(fn: (hold: RecordedHold) => T | PromiseLike<T>, options?: O): Promise<T> {
    const hold = await this.acquire(options)
    try {
      return await fn(hold)
    } finally {
      await hold.release()
    }
  }

  async #call(waitMs: number | null, call: () => Promise<Hold | null>): Promise<RecordedHold | null> {
    const { diary, tally, p } = this.#caller
    const token = {}
    tally.waits.set(token, { since: nowMicros(), name: this.#short, p, queues: waitMs !== 0 })
    diary.note(p, 'acquire', 'invoke', this.#short, { ...this.#wanted, waitMs })
    try {
      const hold = await call()
      if (hold !== null) return new RecordedHold(hold, this.#caller, this.#short, this.#fenced, p)
      tally.refused += 1
      diary.note(p, 'acquire', 'fail', this.#short, { error: 'ACQUIRE_TIMEOUT' })
      return null
    } catch (error) {
      this.#failed(error, p)
      throw error
    } finally {
      tally.waits.delete(token)
    }
  }

  #failed(error: unknown, p: string): void {
    const { diary, tally } = this.#caller
    const { type, code, unexpected } = judge(error)
    diary.note(p, 'acquire', type, this.#short, { error: code })
    if (unexpected) diary.complain('unexpected-error', p, this.#short, `acquire: ${describeError(error)}`)
    if (type === 'fail') tally.refused += 1
    else {
      tally.unknown += 1
      this.#caller.rename()
    }
  }
}

/** A hold that writes down what becomes of it, and the moment at which its loss could be seen. */
export class RecordedHold implements Hold {
  readonly #inner: Hold
  readonly #caller: Caller
  readonly #short: string
  /** Who acquired it, whatever the caller is called by now. */
  readonly p: string
  readonly #onLost: () => void
  #released: Promise<ReleaseOutcome> | null = null
  #untilBeforeSleep = Number.NEGATIVE_INFINITY
  /** Runs at once when the hold is lost, before anything else of this process can. */
  whenLost: (() => void) | null = null

  constructor(inner: Hold, caller: Caller, short: string, fenced: boolean, p: string) {
    this.#inner = inner
    this.#caller = caller
    this.#short = short
    this.p = p
    const { diary, tally } = caller
    const fence = fenced ? { fence: String(inner.fence) } : {}
    // The library may have granted this lock and then, before its caller ran, have shortened its lease.
    if (tally.sleptInTurn) this.#untilBeforeSleep = nowMicros()
    const granted = Math.max(this.until, this.#untilBeforeSleep)
    const requested = caller.requests?.sinceOf(inner.resource) ?? null
    const since = requested === null ? {} : { since: requested }
    diary.note(this.p, 'acquire', 'ok', short, { ...fence, ...since, until: granted })
    tally.acquired += 1
    tally.held.add(this)
    this.#onLost = () => {
      const error = (inner.signal.reason as LockLostError).reason
      // Who may have slept has its leases shortened after the fact, by a moment that nobody could know before.
      const until = Math.max(this.until, this.#untilBeforeSleep)
      diary.note(this.p, 'lost', 'note', short, { error, until })
      tally.held.delete(this)
      tally.lost += 1
      this.whenLost?.()
    }
    if (inner.signal.aborted) this.#onLost()
    else inner.signal.addEventListener('abort', this.#onLost, { once: true })
  }

  get resource(): string {
    return this.#inner.resource
  }

  /** The name in the history. */
  get short(): string {
    return this.#short
  }

  get fence(): bigint {
    return this.#inner.fence
  }

  get signal(): AbortSignal {
    return this.#inner.signal
  }

  get deadline(): number {
    return this.#inner.deadline
  }

  /** The deadline on the clock of the history. */
  get until(): number {
    return microsAt(this.#inner.deadline)
  }

  /** The library is about to shorten its leases, because the machine seems to have slept. */
  sleepNoticed(): void {
    this.#untilBeforeSleep = this.until
  }

  get remainingMs(): number {
    return this.#inner.remainingMs
  }

  get isHeld(): boolean {
    return this.#inner.isHeld
  }

  /** The hold that this one records, for whoever needs the library's own. */
  get inner(): Hold {
    return this.#inner
  }

  assertHeld(): void {
    const { diary } = this.#caller
    diary.note(this.p, 'assert', 'invoke', this.#short)
    try {
      this.#inner.assertHeld()
      diary.note(this.p, 'assert', 'ok', this.#short, { until: this.until })
    } catch (error) {
      this.#failed('assert', error)
      throw error
    }
  }

  async extend(ms?: number): Promise<void> {
    const { diary } = this.#caller
    diary.note(this.p, 'extend', 'invoke', this.#short)
    try {
      await this.#inner.extend(ms)
      diary.note(this.p, 'extend', 'ok', this.#short, { until: this.until })
    } catch (error) {
      this.#failed('extend', error)
      throw error
    }
  }

  release(): Promise<ReleaseOutcome> {
    this.#released ??= this.#release()
    return this.#released
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  async #release(): Promise<ReleaseOutcome> {
    const { diary, tally } = this.#caller
    diary.note(this.p, 'release', 'invoke', this.#short)
    const outcome = await this.#inner.release()
    tally.held.delete(this)
    this.#inner.signal.removeEventListener('abort', this.#onLost)
    if (outcome === 'released') diary.note(this.p, 'release', 'ok', this.#short)
    else if (outcome === 'gone') diary.note(this.p, 'release', 'fail', this.#short, { error: 'NOT_HELD' })
    else {
      diary.note(this.p, 'release', 'info', this.#short, { error: 'UNCONFIRMED' })
      tally.unknown += 1
      if (this.#caller.p === this.p) this.#caller.rename()
    }
    return outcome
  }

  #failed(f: 'assert' | 'extend', error: unknown): void {
    const { diary } = this.#caller
    const { type, code, unexpected } = judge(error)
    const v: EventValue = { error: code }
    // A look at the clock has no effect at the store, so there is nothing about it that nobody could know.
    diary.note(this.p, f, f === 'assert' ? 'fail' : type, this.#short, v)
    if (unexpected) diary.complain('unexpected-error', this.p, this.#short, `${f}: ${describeError(error)}`)
  }
}
