import type { AcquireOptions, Hold, HoldSummary, Lockable, LockLostError, ReleaseOutcome } from 'holdfast'
import type { EventValue } from '../history/format.js'
import { microsAt, nowMicros } from '../history/recorder.js'
import { type Caller, judge } from './caller.js'
import { describeError } from './diary.js'
import { inRunScope, type RunScope } from './run-outcomes.js'

/** How a lock is asked for, as the history says it. */
export interface Wanted {
  readonly mode?: 'shared'
  readonly weight?: number
  /** The process does not serve its callers from one request, because each belongs to a flow of its own. */
  readonly flow?: true
}

/** What the caller asked for that decides how its hold may end. */
function wishesOf({ minHoldMs, maxHoldMs, renew }: AcquireOptions = {}): EventValue {
  return {
    ...(minHoldMs === undefined ? {} : { minHoldMs }),
    ...(maxHoldMs === undefined ? {} : { maxHoldMs }),
    ...(renew === false ? { fixedLease: true } : {}),
  }
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
    const held = await this.#call(options?.waitMs ?? null, options, () => this.#inner.acquire(options))
    if (held === null) throw new Error('A lock that was waited for gave nothing.')
    return held
  }

  async tryAcquire(options?: O): Promise<RecordedHold | null> {
    return await this.#call(options?.waitMs ?? 0, options, () => this.#inner.tryAcquire(options))
  }

  /** Uses the `run()` of the lock itself, because that is what is tested. It makes the release. */
  async run<T>(fn: (hold: RecordedHold) => T | PromiseLike<T>, options?: O): Promise<T> {
    const scope: RunScope = { resource: this.name, outcome: null }
    const call = this.#begin(options?.waitMs ?? null, options)
    let recorded: RecordedHold | null = null
    const work = async (hold: Hold): Promise<T> => {
      recorded = this.#granted(hold, call.p)
      call.end()
      try {
        return await fn(recorded)
      } finally {
        recorded.beginRelease()
      }
    }
    try {
      return await inRunScope(scope, () => this.#inner.run(work, options))
    } catch (error) {
      if (recorded === null) this.#failed(error, call.p)
      throw error
    } finally {
      call.end()
      const ended = recorded as RecordedHold | null
      ended?.endRelease(scope.outcome ?? 'unconfirmed')
    }
  }

  /** Notes that the call is about to be made. */
  #begin(waitMs: number | null, options: O | undefined): { readonly p: string; readonly end: () => void } {
    const { diary, tally, p } = this.#caller
    const token = {}
    tally.waits.set(token, { since: nowMicros(), name: this.#short, p, queues: waitMs !== 0 })
    diary.note(p, 'acquire', 'invoke', this.#short, { ...this.#wanted, ...wishesOf(options), waitMs })
    return { p, end: () => tally.waits.delete(token) }
  }

  #granted(hold: Hold, p: string): RecordedHold {
    return new RecordedHold(hold, this.#caller, { short: this.#short, fenced: this.#fenced, p })
  }

  async #call(
    waitMs: number | null,
    options: O | undefined,
    call: () => Promise<Hold | null>,
  ): Promise<RecordedHold | null> {
    const { diary, tally } = this.#caller
    const { p, end } = this.#begin(waitMs, options)
    try {
      const hold = await call()
      if (hold !== null) return this.#granted(hold, p)
      tally.refused += 1
      diary.note(p, 'acquire', 'fail', this.#short, { error: 'ACQUIRE_TIMEOUT' })
      return null
    } catch (error) {
      this.#failed(error, p)
      throw error
    } finally {
      end()
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

/** What the history calls a hold. */
interface Granted {
  readonly short: string
  readonly fenced: boolean
  readonly p: string
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

  constructor(inner: Hold, caller: Caller, { short, fenced, p }: Granted) {
    this.#inner = inner
    this.#caller = caller
    this.#short = short
    this.p = p
    const { diary, tally } = caller
    const fence = fenced ? { fence: String(inner.fence) } : {}
    // The library may have granted this lock and then, before its caller ran, have shortened its lease.
    if (tally.sleptInTurn) this.#untilBeforeSleep = nowMicros()
    const granted = Math.max(this.until, this.#untilBeforeSleep)
    const request = caller.requests?.grantedBy(inner.resource)
    diary.note(this.p, 'acquire', 'ok', short, { ...fence, ...request, until: granted })
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
    // A second notice can come before the first loss is reported, and then the lease has been shortened already.
    this.#untilBeforeSleep = Math.max(this.#untilBeforeSleep, this.until)
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

  toJSON(): HoldSummary {
    return this.inner.toJSON()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  async #release(): Promise<ReleaseOutcome> {
    this.beginRelease()
    const outcome = await this.#inner.release()
    this.endRelease(outcome)
    return outcome
  }

  /** Notes that a release is about to be made. */
  beginRelease(): void {
    this.#caller.diary.note(this.p, 'release', 'invoke', this.#short)
  }

  /** Notes what became of it. */
  endRelease(outcome: ReleaseOutcome): void {
    const { diary } = this.#caller
    this.#over()
    if (outcome === 'released') diary.note(this.p, 'release', 'ok', this.#short)
    else if (outcome === 'gone') diary.note(this.p, 'release', 'fail', this.#short, { error: 'NOT_HELD' })
    else this.#unconfirmed('UNCONFIRMED')
  }

  /**
   * Turns a write hold into a read hold. To the history the one is released and the other acquired, with nothing in
   * between; the fence stays with the first.
   */
  async downgrade(downgrade: () => Promise<Hold>): Promise<RecordedHold> {
    const { diary } = this.#caller
    this.beginRelease()
    try {
      const lighter = await downgrade()
      this.#over()
      // The library would release the lighter one, which has a record of its own.
      this.#released = Promise.resolve('released')
      diary.note(this.p, 'release', 'ok', this.#short)
      const wanted = { mode: 'shared', downgrade: true, waitMs: 0 } as const
      diary.note(this.p, 'acquire', 'invoke', this.#short, wanted)
      return new RecordedHold(lighter, this.#caller, { short: this.#short, fenced: false, p: this.p })
    } catch (error) {
      this.#over()
      this.#released = Promise.resolve('unconfirmed')
      this.#unconfirmed(judge(error).code)
      throw error
    }
  }

  #over(): void {
    this.#caller.tally.held.delete(this)
    this.#inner.signal.removeEventListener('abort', this.#onLost)
  }

  #unconfirmed(error: string): void {
    const { diary, tally } = this.#caller
    diary.note(this.p, 'release', 'info', this.#short, { error })
    tally.unknown += 1
    if (this.#caller.p === this.p) this.#caller.rename()
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
