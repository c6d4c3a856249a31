import type {
  Backend,
  Claim,
  Eviction,
  Patience,
  Release,
  Renewal,
  RenewRequest,
  ResourceView,
  Verdict,
} from '../../src/backend.js'
import { refOf } from '../../src/backend.js'
import type { MemoryStore } from '../../src/memory.js'
import { RelayBackend } from '../../src/testing.js'

/** Backends that each make one mistake, to see whether the suite notices. */

export class ReleasesWhoeverHolds extends RelayBackend {
  readonly #store: MemoryStore

  constructor(inner: Backend, store: MemoryStore) {
    super(inner)
    this.#store = store
  }

  override async release(claim: Claim): Promise<Release> {
    const holder = this.#store.inspect(claim.resource).holders[0]
    if (holder === undefined) return await super.release(claim)
    return this.#store.evict(claim.resource, holder.ref) === 'evicted' ? 'released' : 'gone'
  }
}

export class AdmitsOneTooMany extends RelayBackend {
  override attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const { kind, limit } = claim.shape
    return super.attempt(kind === 'mutex' ? { ...claim, shape: { kind, limit: limit + 1 } } : claim, patience)
  }
}

export class AnswersTheWeightThatWasAsked extends RelayBackend {
  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const verdict = await super.attempt(claim, patience)
    return 'weight' in verdict ? { ...verdict, weight: claim.weight } : verdict
  }
}

export class NeverCountsOn extends RelayBackend {
  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const verdict = await super.attempt(claim, patience)
    return 'fence' in verdict ? { ...verdict, fence: 1n } : verdict
  }
}

export class RenewalRevives extends RelayBackend {
  override async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    for (const { claim } of requests) await super.attempt(claim, { waitMs: 1, leaseMs: claim.ttlMs })
    return requests.map(() => 'renewed')
  }
}

export class RenewsWhateverItIsAsked extends RelayBackend {
  override async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    await super.renew(requests)
    return requests.map(() => 'renewed')
  }
}

export class EveryAttemptIsNew extends RelayBackend {
  readonly #ids = new Map<string, string>()
  #count = 0

  override attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    this.#count += 1
    this.#ids.set(claim.id, `${claim.id}-${this.#count}`)
    return super.attempt(this.#latest(claim), patience)
  }

  override renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return super.renew(requests.map((request) => ({ ...request, claim: this.#latest(request.claim) })))
  }

  override release(claim: Claim): Promise<Release> {
    return super.release(this.#latest(claim))
  }

  #latest(claim: Claim): Claim {
    return { ...claim, id: this.#ids.get(claim.id) ?? claim.id }
  }
}

export class RefusedTryStaysInLine extends RelayBackend {
  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const verdict = await super.attempt(claim, { ...patience, waitMs: 1 })
    if (verdict.kind !== 'waiting' || patience.waitMs > 0) return verdict
    return { kind: 'refused', retryAfterMs: verdict.retryAfterMs, holder: verdict.holder }
  }
}

export class ReleasesHoldersOnly extends RelayBackend {
  override async release(claim: Claim): Promise<Release> {
    const { holders } = await super.inspect(claim.resource)
    return holders.some(({ ref }) => ref === refOf(claim.id)) ? await super.release(claim) : 'gone'
  }
}

export class ReleasesNothing extends RelayBackend {
  override async release(): Promise<Release> {
    return 'released'
  }
}

export class FoldsCase extends RelayBackend {
  override attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    return super.attempt(lowered(claim), patience)
  }

  override renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return super.renew(requests.map((request) => ({ ...request, claim: lowered(request.claim) })))
  }

  override release(claim: Claim): Promise<Release> {
    return super.release(lowered(claim))
  }
}

function lowered(claim: Claim): Claim {
  return { ...claim, resource: claim.resource.toLowerCase() }
}

export class ShowsIds extends RelayBackend {
  readonly #ids = new Map<string, string>()

  override attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    this.#ids.set(refOf(claim.id), claim.id)
    return super.attempt(claim, patience)
  }

  override async inspect(resource: string): Promise<ResourceView> {
    const view = await super.inspect(resource)
    return {
      ...view,
      holders: view.holders.map((each) => ({ ...each, ref: this.#ids.get(each.ref) ?? each.ref })),
    }
  }

  override evict(resource: string, ref: string): Promise<Eviction> {
    const isId = [...this.#ids.values()].includes(ref)
    return super.evict(resource, isId ? refOf(ref) : ref)
  }
}

export class KeepsNoLine extends RelayBackend {
  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const verdict = await super.attempt(claim, { ...patience, waitMs: 0 })
    if (verdict.kind !== 'refused' || patience.waitMs === 0) return verdict
    return {
      ...verdict,
      kind: 'waiting',
      fence: null,
      leaseMs: patience.leaseMs,
      weight: claim.weight,
      ahead: 1,
    }
  }
}

/** Promises four times the lease that the store really gives. */
export class PromisesTooMuch extends RelayBackend {
  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const verdict = await super.attempt({ ...claim, ttlMs: claim.ttlMs / 4 }, patience)
    return verdict.kind === 'granted' ? { ...verdict, leaseMs: claim.ttlMs } : verdict
  }
}

export class EvictsNobody extends RelayBackend {
  override async evict(): Promise<Eviction> {
    return 'evicted'
  }
}

export class ListsEverything extends RelayBackend {
  override list(): AsyncIterable<ResourceView> {
    return super.list('')
  }
}

export class DowngradesWithAGap extends RelayBackend {
  readonly #weights = new Map<string, number>()

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const before = this.#weights.get(claim.id) ?? claim.weight
    this.#weights.set(claim.id, claim.weight)
    if (claim.weight < before) await super.release(claim)
    return await super.attempt(claim, claim.weight < before ? { ...patience, waitMs: 1 } : patience)
  }
}

export class EverybodyWeighsOne extends RelayBackend {
  override attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    return super.attempt({ ...claim, weight: 1 }, patience)
  }
}

export class TakesAConflictForContention extends RelayBackend {
  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const verdict = await super.attempt(claim, patience)
    if (verdict.kind !== 'mismatched') return verdict
    const { waitMs, leaseMs } = patience
    if (waitMs === 0) return { kind: 'refused', retryAfterMs: null, holder: null }
    return {
      kind: 'waiting',
      fence: null,
      leaseMs,
      weight: claim.weight,
      ahead: 1,
      retryAfterMs: null,
      holder: null,
    }
  }
}

export class ForgetsNotes extends RelayBackend {
  override attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    return super.attempt({ ...claim, note: null }, patience)
  }
}

/** A read-write lock in which whoever reads may come in beside readers, however long a writer has waited. */
export class ReadersOvertake extends RelayBackend {
  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const { holders, waiters } = await super.inspect(claim.resource)
    const reads = claim.shape.kind === 'read-write' && claim.weight === 1
    if (!reads || waiters.length === 0 || holders.some(({ weight }) => weight > 1)) {
      return await super.attempt(claim, patience)
    }
    return await super.attempt({ ...claim, resource: `${claim.resource} readers` }, patience)
  }
}
