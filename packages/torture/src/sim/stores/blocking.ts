import type { Claim, Guarantees, Patience, Release, Timer, Verdict } from 'holdfast/backend'
import { GUARANTEES, QueueStore } from './base.js'
import type { QueueEntry } from './queue.js'
import type { StoreClient } from './store.js'

interface Blocked {
  readonly claim: Claim
  readonly arrivedAt: number
  readonly timer: Timer
  readonly reply: (verdict: Verdict) => void
}

const REFUSED: Verdict = { kind: 'refused', retryAfterMs: 0, holder: null }

/**
 * A store that holds the answer to an attempt back until the claim is granted or its time is over, like a blocking
 * statement of a database. Waiters have no place beyond their request, so the order among them is not kept.
 */
export class BlockingStore extends QueueStore {
  readonly type = 'blocking'
  readonly guarantees: Guarantees = { ...GUARANTEES, waiting: 'block', fair: false }
  readonly #blocked = new Map<string, Set<Blocked>>()

  override attempt(
    client: StoreClient,
    claim: Claim,
    patience: Patience,
    reply: (verdict: Verdict) => void,
  ): void {
    // The entry of a waiter lasts for as long as its request.
    const leaseMs = patience.waitMs + patience.leaseMs
    const verdict = this.table.attempt(client, claim, { ...patience, leaseMs })
    if (verdict.kind === 'waiting') this.#block(claim, patience.waitMs, reply)
    else if (verdict.kind === 'granted') reply(this.#granted(claim, this.time.nowMs) ?? verdict)
    else reply(verdict)
  }

  #block(claim: Claim, waitMs: number, reply: (verdict: Verdict) => void): void {
    const { nowMs } = this.time
    const timer = this.time.schedule(nowMs + waitMs, () => this.#give(claim.id, blocked, REFUSED))
    const blocked: Blocked = { claim, arrivedAt: nowMs, timer, reply }
    const others = this.#blocked.get(claim.id)
    if (others === undefined) this.#blocked.set(claim.id, new Set([blocked]))
    else others.add(blocked)
    this.#watchExpiry(claim.resource)
  }

  /** No request comes while requests block, so the store itself looks when a lease ends. */
  #watchExpiry(resource: string): void {
    const endsAt = this.table.firstEnd(resource)
    if (!Number.isFinite(endsAt)) return
    this.time.schedule(endsAt, () => {
      this.table.wake(resource)
      const isWaitedFor = [...this.#blocked.values()].some((all) =>
        [...all].some(({ claim }) => claim.resource === resource),
      )
      if (isWaitedFor) this.#watchExpiry(resource)
    })
  }

  protected override admitted({ id }: QueueEntry): void {
    const all = this.#blocked.get(id) ?? []
    for (const blocked of all) {
      const { claim, arrivedAt } = blocked
      const verdict = this.#granted(claim, arrivedAt)
      if (verdict !== null) this.#give(id, blocked, verdict)
    }
  }

  /** The lease begins with the grant. The client counts it from before its request arrived, so the time in between is added. */
  #granted(claim: Claim, arrivedAt: number): Verdict | null {
    const entry = this.table.find(claim)
    if (entry === undefined) return null
    const { nowMs } = this.time
    if (arrivedAt < nowMs) entry.expiresAt = nowMs + claim.ttlMs
    const leaseMs = entry.expiresAt - arrivedAt
    return { kind: 'granted', fence: entry.fence, leaseMs, weight: entry.weight }
  }

  #give(id: string, blocked: Blocked, verdict: Verdict): void {
    const all = this.#blocked.get(id)
    if (all === undefined || !all.delete(blocked)) return
    if (all.size === 0) this.#blocked.delete(id)
    blocked.timer.cancel()
    if (verdict.kind === 'refused' && !this.#blocked.has(id)) this.table.release(blocked.claim)
    blocked.reply(verdict)
  }

  override release(client: StoreClient, claim: Claim): Release {
    const outcome = super.release(client, claim)
    for (const blocked of this.#blocked.get(claim.id) ?? []) this.#give(claim.id, blocked, REFUSED)
    return outcome
  }
}
