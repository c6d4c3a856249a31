/** The lease of an attempt, kept by the same keeper that keeps locks. */

import type { Owner, Renewal, RenewRequest } from '../core/backend.js'
import { LockLostError, type LockLostReason } from '../core/errors.js'
import type { Reporter } from '../core/events.js'
import { Keeper } from '../core/keeper.js'
import type { ClaimRef, RecordStore } from '../core/records.js'
import { Reports } from '../core/reports.js'
import type { Contexts, Runtime, Scope } from '../core/runtime.js'
import { ScopedAbort } from '../core/scoped-abort.js'
import { Standing } from '../core/standing.js'
import { isHeard } from './events.js'

/** More than it takes until a wall clock that keeps stepping is ignored: see `SleepWatch`. */
const CONFIRM_TRIES = 4

const SHAPE = { kind: 'mutex', limit: 1 } as const

/** An attempt that is under way. */
export class Lease implements ClaimRef {
  readonly key: string
  readonly owner: string
  readonly fence: bigint
  readonly retentionMs: number | null
  readonly standing: Standing
  /** What errors and events call it. */
  readonly ref: string
  readonly #contexts: Contexts
  #abort: ScopedAbort | null = null
  #lost: LockLostError | null = null

  constructor(
    claim: ClaimRef & Pick<Lease, 'retentionMs'>,
    standing: Standing,
    ref: string,
    contexts: Contexts,
  ) {
    this.#contexts = contexts
    this.key = claim.key
    this.owner = claim.owner
    this.fence = claim.fence
    this.retentionMs = claim.retentionMs
    this.standing = standing
    this.ref = ref
  }

  /** Made on demand, because most work never looks at it and it is the dearest part of a lease. */
  get signal(): AbortSignal {
    if (this.#abort === null) {
      this.#abort = new ScopedAbort(this.#contexts)
      if (this.#lost !== null) this.#abort.abort(this.#lost)
    }
    return this.#abort.signal
  }

  /** Why it is lost; null: it is not, as far as anybody has noticed. */
  get lost(): LockLostError | null {
    return this.#lost
  }

  lose(reason: LockLostReason, backend: string): void {
    this.#lost ??= new LockLostError(reason, { resource: this.ref, backend })
    this.#abort?.abort(this.#lost)
  }
}

export interface LeaseTerms {
  readonly leaseMs: number
  readonly maxRunMs: number
  readonly retentionMs: number | null
}

/** Keeps the leases of all attempts of one client, in batches. */
export class LeaseKeeper {
  readonly #store: RecordStore
  readonly #runtime: Runtime
  readonly #keeper: Keeper
  readonly #leases = new Map<string, Lease>()
  readonly #onLost: (lease: Lease) => void
  readonly #who: Owner

  constructor(
    store: RecordStore,
    runtime: Runtime,
    requestMs: number,
    onLost: (lease: Lease) => void,
    onFailed: (error: unknown) => void,
  ) {
    this.#store = store
    this.#runtime = runtime
    this.#onLost = onLost
    this.#who = { ...runtime.identity, client: '' }
    const renewer = {
      name: store.name,
      renew: (requests: readonly RenewRequest[]) => this.#renew(requests),
    }
    const reporter: Reporter = {
      get isHeard() {
        return isHeard()
      },
      number: () => 0,
      tell: (event) => {
        if (event.type === 'renewal-failed') onFailed(event.error)
      },
    }
    const reports = new Reports(reporter, store.name, runtime)
    this.#keeper = new Keeper(renewer, runtime, { requestMs }, reports)
  }

  /** What `keep` must be told later: taken before the request leaves, because a lease counts from then. */
  departure(): { readonly sentAt: number; readonly awake: number } {
    return { awake: this.#keeper.wakefulness(), sentAt: this.#runtime.clock.monotonicMs() }
  }

  /** Begins to keep an attempt. null: the lease is over, or what is left of it is unknown. */
  async keep(
    claim: ClaimRef,
    promisedMs: number,
    { sentAt, awake }: { readonly sentAt: number; readonly awake: number },
    terms: LeaseTerms,
    ref: string,
  ): Promise<Lease | null> {
    const { leaseMs, maxRunMs, retentionMs } = terms
    const { key, owner } = claim
    const stored = {
      id: owner,
      resource: key,
      shape: SHAPE,
      weight: 1,
      ttlMs: leaseMs,
      owner: this.#who,
      note: null,
    }
    const standing = new Standing(stored, true, leaseMs, 0)
    standing.fence = claim.fence
    // How long a request may take depends on it. What can be relied on is counted below.
    standing.lease = { sentAt, leaseMs: promisedMs }
    standing.state = 'held'
    const lease = new Lease({ ...claim, retentionMs }, standing, ref, this.#runtime.contexts)
    const { contexts } = this.#runtime
    const scope: Scope = isHeard() ? contexts.capture() : contexts.outside
    standing.onLost = (reason) => {
      this.#leases.delete(owner)
      lease.lose(reason, this.#store.name)
      scope(() => this.#onLost(lease))
    }
    this.#leases.set(owner, lease)
    if (this.#keeper.wakefulness() === awake) standing.placed(claim.fence, sentAt, promisedMs, awake)
    else await this.#confirm(standing)
    const now = this.#runtime.clock.monotonicMs()
    if (now >= standing.abortAt || this.#keeper.isDoubtful(standing)) {
      this.#leases.delete(owner)
      return null
    }
    standing.limitAt = now + maxRunMs
    this.#keeper.keep(standing)
    return lease
  }

  /** The machine slept, or a clock was set, before the answer was read: the store has to say how long the lease lasts now. */
  async #confirm(standing: Standing): Promise<void> {
    for (let tries = 0; tries < CONFIRM_TRIES && this.#keeper.isDoubtful(standing); tries++) {
      // Whether it is lost or unknown, it is not relied on.
      const state = await this.#keeper.confirm(standing, standing.askMs).catch(() => 'lost')
      if (state === 'lost') return
    }
  }

  /** Throws where nothing of the lease is left to rely on, also if the timer that would tell so is late. */
  check(lease: Lease): void {
    const { standing } = lease
    this.#keeper.noticeSleep()
    const now = this.#runtime.clock.monotonicMs()
    if (now >= standing.endsAt) this.#keeper.lose(standing, now >= standing.limitAt ? 'max-hold' : 'expired')
    if (lease.lost !== null) throw lease.lost
  }

  drop(lease: Lease): void {
    this.#leases.delete(lease.owner)
    void this.#keeper.drop(lease.standing)
  }

  /** Every attempt that is still under way is told to stop. */
  stop(): void {
    for (const { standing } of this.#leases.values()) this.#keeper.lose(standing, 'closed')
    this.#keeper.stop()
  }

  #renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const asks = requests.map(({ claim, fence, leaseMs }) => {
      const lease = this.#leases.get(claim.id)
      return {
        key: claim.resource,
        owner: claim.id,
        fence: fence as bigint,
        // One that has just ended is only asked for: what becomes of the record is not its renewal's business any more.
        leaseMs: lease === undefined ? 0 : leaseMs,
        retentionMs: lease?.retentionMs ?? null,
      }
    })
    return this.#store.renew(asks)
  }
}
