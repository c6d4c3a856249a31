import { type Renewal, type RenewRequest, refOf } from 'holdfast/backend'
import type { VirtualTime } from 'holdfast/testing'
import type { Excuses } from './excuses.js'
import type { SimProcess } from './process.js'
import type { SeenStanding } from './standing.js'
import { Violation } from './violation.js'

/** How late a renewal may leave while its process runs: the grain of the wheel and of the scheduler. */
const LATE_MS = 30

/** The wheel ends a hold up to two of its grains early. */
const GRAIN_MS = 8

/** Clocks run up to this much apart. After a long standstill that looks like a short sleep, which shortens the lease. */
const DRIFT = 0.007

/** Clocks that are further apart than this mean a sleep to the client. */
const SLEEP_SLACK_MS = 12

/** So many renewals of one hold may follow an answered one in a third of its lease. */
const BURST_MAX = 8

/** A hold as this check sees it. */
export interface LostHold {
  readonly process: SimProcess
  readonly resource: string
  readonly standing: SeenStanding
}

interface Kept {
  readonly hold: LostHold
  readonly since: number
  /** When the request left that the lease is counted from, or the hold began. */
  countedFrom: number
  /** The holder may rely on the lease until here, on the monotonic clock of its process. */
  endsAt: number
  /** When the lease is to be renewed, on the same clock. */
  renewAt: number
  /** When the next renewal must have left, counted in the time that the process ran. */
  dueAt: number
  /** By how much a renewal was late. */
  missedByMs: number
  /** The store has said that the claim is gone, and the process has heard it. */
  isTold: boolean
  /** The renewals that followed an answered one since a time, which is moved on after a third of a lease. */
  readonly burst: { since: number; count: number; isAnswered: boolean }
}

interface Sent {
  readonly at: number
  readonly monotonicMs: number
  readonly doubts: number
}

interface Running {
  stoppedMs: number
  stoppedSince: number | null
  /** How often its clocks have moved against each other, by a sleep or by a step of the wall clock. */
  doubts: number
}

/** What the client gives up of a lease for uneven clocks, and to stop in time. See docs/guarantees.md. */
export function usableMs(leaseMs: number): number {
  return leaseMs - (leaseMs * 0.01 + 2) - Math.min(Math.max(50, leaseMs / 10), leaseMs / 4)
}

/** A renewal leaves after a third of the lease. A longer lease is renewed as long before its end as that. */
export function renewAfterMs(leaseMs: number, askMs: number): number {
  return leaseMs <= askMs ? leaseMs / 3 : usableMs(leaseMs) - (usableMs(askMs) - askMs / 3)
}

/** The longest time between a failed renewal and the next one. */
export function retryMs(leaseMs: number): number {
  return Math.min(Math.max(leaseMs / 20, 10), 2_000) * 1.25
}

/**
 * Finds holds that are lost without a cause. A fault that ended the entry explains a loss. So does a lease that ran out,
 * if the client did what it could: each renewal left on schedule, and none of them was answered. A lost message explains
 * only the one renewal that it belongs to, and the next one must have been sent in time.
 */
export class Losses {
  readonly #time: VirtualTime
  readonly #excuses: Excuses
  readonly #requestMs: number
  readonly #kept = new Map<string, Kept>()
  readonly #sent = new WeakMap<readonly RenewRequest[], Sent>()
  readonly #running = new Map<SimProcess, Running>()
  #found: Violation | null = null
  /** When the store last forgot which fencing tokens it has minted. */
  #forgottenAt = Number.NEGATIVE_INFINITY

  constructor(time: VirtualTime, excuses: Excuses, requestMs: number) {
    this.#time = time
    this.#excuses = excuses
    this.#requestMs = requestMs
  }

  begin(hold: LostHold, deadline: number): void {
    const { process, standing } = hold
    const { sentAt, leaseMs } = standing.lease
    const kept = {
      hold,
      since: this.#time.nowMs,
      countedFrom: this.#time.nowMs,
      endsAt: deadline,
      renewAt: sentAt + renewAfterMs(leaseMs, standing.claim.ttlMs),
      dueAt: 0,
      missedByMs: 0,
      isTold: false,
      burst: { since: this.#time.nowMs, count: 0, isAnswered: false },
    }
    this.#kept.set(standing.claim.id, kept)
    // A renewal of the claim may be under way already, and the next one waits for it.
    kept.dueAt = this.#nextDue(kept, process) + this.#requestMs + retryMs(standing.claim.ttlMs)
  }

  end(hold: LostHold): void {
    const { id } = hold.standing.claim
    if (this.#kept.get(id)?.hold === hold) this.#kept.delete(id)
  }

  /** The signal of the hold has aborted. */
  lost(hold: LostHold, reason: string): void {
    const kept = this.#kept.get(hold.standing.claim.id)
    if (kept === undefined || kept.hold !== hold || reason === 'closed') return
    const { process, resource, standing } = hold
    if (this.#excuses.wasEnded({ ref: refOf(standing.claim.id), place: standing.fence })) return
    const leftMs = Math.min(kept.endsAt, standing.limitAt) - process.monotonicMs()
    const what = `${process.name} lost ${resource} as ${reason}`
    if (leftMs > GRAIN_MS + DRIFT * (this.#time.nowMs - kept.countedFrom)) {
      this.#found ??= new Violation(
        'unexplained-loss',
        `${what} with ${leftMs.toFixed(1)} ms of its lease left`,
      )
      return
    }
    if (!standing.renews || process.monotonicMs() >= standing.limitAt - GRAIN_MS) return
    this.#noteLate(kept, process)
    if (kept.missedByMs <= 0) return
    const late = `a renewal was ${kept.missedByMs.toFixed(1)} ms late`
    this.#found ??= new Violation('unexplained-loss', `${what}: ${late}`)
  }

  /** What the store said, and the process heard, has ended the hold at once. */
  afterStep(): void {
    // A listener of a signal must not throw, so what it finds is thrown here.
    if (this.#found !== null) throw this.#found
    for (const { hold, isTold } of this.#kept.values()) {
      if (!isTold) continue
      const { process, resource } = hold
      throw new Violation(
        'unnoticed-loss',
        `${process.name} goes on with ${resource} after the store has said that it is gone`,
      )
    }
  }

  renewalSent(process: SimProcess, requests: readonly RenewRequest[]): void {
    const { doubts } = this.#runOf(process)
    this.#sent.set(requests, { at: this.#time.nowMs, monotonicMs: process.monotonicMs(), doubts })
    for (const { claim } of requests) {
      const kept = this.#kept.get(claim.id)
      if (kept === undefined) continue
      this.#noteLate(kept, process)
      this.#countSent(kept)
      kept.dueAt = this.#ranMs(process) + this.#requestMs + retryMs(claim.ttlMs)
    }
  }

  renewalAnswered(
    process: SimProcess,
    requests: readonly RenewRequest[],
    states: readonly Renewal[] | null,
  ): void {
    const sent = this.#sent.get(requests) as Sent
    for (const [index, { claim, fence, leaseMs }] of requests.entries()) {
      const kept = this.#kept.get(claim.id)
      if (kept === undefined || kept.hold.standing.fence !== fence) continue
      const state = states?.[index] ?? 'unknown'
      // Without a fencing token that is minted once, an answer to an older request may be about an entry that has gone.
      const isOlder = sent.at <= (fence === null ? kept.since : this.#forgottenAt)
      if (isOlder) kept.dueAt = Math.max(kept.dueAt, this.#ranMs(process) + claim.ttlMs / 3)
      else if (state === 'lost') kept.isTold = true
      else if (state === 'unknown') this.#retries(kept, process)
      else if (sent.doubts === this.#runOf(process).doubts) this.#credit(kept, sent, leaseMs)
    }
  }

  lossPushed(_process: SimProcess, claimId: string): void {
    const kept = this.#kept.get(claimId)
    if (kept !== undefined) kept.isTold = true
  }

  fencesForgotten(): void {
    this.#forgottenAt = this.#time.nowMs
  }

  processHalts(process: SimProcess, isAsleep: boolean): void {
    this.#runOf(process).stoppedSince = this.#time.nowMs
    if (isAsleep) this.clocksMove(process)
  }

  processResumes(process: SimProcess): void {
    const run = this.#runOf(process)
    const stoppedMs = run.stoppedSince === null ? 0 : this.#time.nowMs - run.stoppedSince
    run.stoppedMs += stoppedMs
    run.stoppedSince = null
    if (stoppedMs * DRIFT > SLEEP_SLACK_MS) this.clocksMove(process)
  }

  processDies(process: SimProcess): void {
    for (const [id, { hold }] of this.#kept) if (hold.process === process) this.#kept.delete(id)
  }

  /** A sleep or a step of the wall clock: the client cannot know how much of the lease is left, and may end the hold. */
  clocksMove(process: SimProcess): void {
    this.#runOf(process).doubts += 1
    for (const kept of this.#kept.values()) {
      if (kept.hold.process === process) kept.endsAt = Number.NEGATIVE_INFINITY
    }
  }

  /** Renewals that are answered follow each other slowly. `extend()` by the caller explains a few more. */
  #countSent({ hold, burst }: Kept): void {
    const { nowMs } = this.#time
    if (nowMs - burst.since > hold.standing.claim.ttlMs / 3) Object.assign(burst, { since: nowMs, count: 0 })
    if (burst.isAnswered) burst.count += 1
    burst.isAnswered = false
    if (burst.count <= BURST_MAX) return
    const what = `${hold.process.name} renewed ${hold.resource} ${burst.count} times in a third of its lease`
    this.#found ??= new Violation('renewal-storm', what)
  }

  #credit(kept: Kept, { at, monotonicMs }: Sent, leaseMs: number): void {
    const endsAt = monotonicMs + usableMs(leaseMs)
    if (leaseMs > 0 && endsAt > kept.endsAt) {
      kept.endsAt = endsAt
      kept.countedFrom = at
      const renewAt = monotonicMs + renewAfterMs(leaseMs, kept.hold.standing.claim.ttlMs)
      // After a sleep the client may still count on a longer lease from before.
      kept.renewAt = Math.max(kept.renewAt, renewAt)
    }
    kept.burst.isAnswered = true
    kept.dueAt = Math.max(kept.dueAt, this.#nextDue(kept, kept.hold.process))
  }

  #retries(kept: Kept, process: SimProcess): void {
    kept.dueAt = Math.max(kept.dueAt, this.#ranMs(process) + retryMs(kept.hold.standing.claim.ttlMs))
  }

  #nextDue({ renewAt }: Kept, process: SimProcess): number {
    return this.#ranMs(process) + Math.max(0, renewAt - process.monotonicMs())
  }

  #noteLate(kept: Kept, process: SimProcess): void {
    const lateMs = this.#ranMs(process) - kept.dueAt - LATE_MS
    kept.missedByMs = Math.max(kept.missedByMs, lateMs)
  }

  #ranMs(process: SimProcess): number {
    const { stoppedMs, stoppedSince } = this.#runOf(process)
    return (stoppedSince ?? this.#time.nowMs) - stoppedMs
  }

  #runOf(process: SimProcess): Running {
    const known = this.#running.get(process)
    if (known !== undefined) return known
    const run = { stoppedMs: 0, stoppedSince: null, doubts: 0 }
    this.#running.set(process, run)
    return run
  }
}
