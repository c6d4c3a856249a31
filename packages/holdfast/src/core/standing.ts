import type { Claim } from './backend.js'
import type { LockLostReason } from './errors.js'
import { abortAt, type Lease } from './timing.js'

/**
 * One claim in the store's line as this process knows it: its place, and how much of its lease can be relied on.
 * The keeper keeps it alive; the wait loop and then a hold look at it.
 */
export class Standing {
  claim: Claim
  state: 'waiting' | 'held' | 'ended' = 'waiting'
  fence: bigint | null = null
  /** Grows each time the claim may have taken another position in the store's queue, so that late answers can be told apart. */
  position = 0
  /** Whose it is, for events; 0 while it waits. */
  acquisition = 0
  /** When it was granted: what the local hand-over counts its time from. */
  since = 0
  /** How many times the claim has passed from one local caller to the next. */
  handOvers = 0
  /** How many local callers waited when the store granted it: those it may serve even if others wait for it. */
  turn = 0
  /** Whether the store has said that somebody waits behind it. */
  isWanted = false
  lease: Lease
  /** From here on nothing may rely on it. Kept as a number because it is read on every check. */
  abortAt: number
  /** Whether the keeper extends it once it is held. A fixed lease is only watched. */
  readonly renews: boolean
  /** What a renewal asks for. */
  askMs: number
  /** The longest lease that was ever asked for. A request that was not answered may have been carried out all the same. */
  longestAskMs: number
  /** The hold's own end, where it has a `maxHoldMs`. */
  limitAt = Number.POSITIVE_INFINITY
  /** The end of a `minHoldMs` whose holder has released: until then nothing releases the claim, also if its lease is given up. */
  staysUntil = Number.NEGATIVE_INFINITY
  /**
   * How often the machine had slept when the request left that the lease is counted from. Once it has slept again, the
   * lease is doubtful until the store has confirmed it. See `Keeper.isDoubtful`.
   */
  awake = -1
  /** Set while a renewal is under way; settles, at the latest, with that request's deadline. */
  renewing: Promise<void> | null = null
  /** The earliest next renewal. */
  renewDueAt = 0
  wheelSlot: number | null = null
  onLost: (reason: LockLostReason) => void = () => {}
  readonly #skewMs: number

  constructor(claim: Claim, renews: boolean, askMs: number, skewMs: number) {
    this.claim = claim
    this.renews = renews
    this.askMs = askMs
    this.longestAskMs = Math.max(askMs, claim.ttlMs)
    this.#skewMs = skewMs
    this.lease = { sentAt: Number.NEGATIVE_INFINITY, leaseMs: 0 }
    this.abortAt = Number.NEGATIVE_INFINITY
  }

  /** Whether the store has ever given the claim a position in its queue. */
  get isPlaced(): boolean {
    return Number.isFinite(this.lease.sentAt)
  }

  /**
   * The store answered for the entry with this fence. A new entry begins a new count, and so does the first answer after
   * a sleep; otherwise the lease can only gain. Without fences any entry may be a new one.
   */
  placed(fence: bigint | null, sentAt: number, leaseMs: number, awake: number): void {
    const isMoved = fence === null || fence !== this.fence
    if (isMoved) this.position += 1
    if (isMoved || awake !== this.awake) this.abortAt = Number.NEGATIVE_INFINITY
    this.fence = fence
    this.awake = awake
    this.credit(sentAt, leaseMs)
  }

  /** The store confirmed the entry, and promised `leaseMs` in answer to a request that left at `sentAt`. 0 promises nothing. */
  confirmed(sentAt: number, leaseMs: number, awake: number): void {
    this.awake = awake
    if (leaseMs > 0) this.credit(sentAt, leaseMs)
  }

  /** Promises do not take each other back. */
  credit(sentAt: number, leaseMs: number): void {
    const lease = { sentAt, leaseMs }
    const end = abortAt(lease, this.#skewMs)
    if (end <= this.abortAt) return
    this.lease = lease
    this.abortAt = end
  }

  /** The lease ran on while this machine slept, so what was counted of it was too much. */
  slept(ms: number): void {
    this.lease = { ...this.lease, sentAt: this.lease.sentAt - ms }
    this.abortAt -= ms
  }

  /** How much of the lease is left, counted from `since` on. */
  leaseFrom(since: number): number {
    return Math.max(0, Math.floor(this.lease.sentAt + this.lease.leaseMs - since))
  }

  /** When a holder must stop, whether for the lease or for its own limit. */
  get endsAt(): number {
    return Math.min(this.abortAt, this.limitAt)
  }
}
