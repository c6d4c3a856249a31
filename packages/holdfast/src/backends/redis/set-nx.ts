/**
 * The classic recipe: `SET name value NX PX ttl`, renewed and deleted only by whoever's value is in the key. It knows no
 * line, so whoever waits asks again and again, and no order is kept. It is here to exclude, and to be excluded by, other
 * programs that lock this way; among programs of Holdfast, `line` is the better recipe.
 */

import type {
  Backend,
  Claim,
  Eviction,
  Guarantees,
  Patience,
  Release,
  Renewal,
  RenewRequest,
  ResourceView,
  Verdict,
} from '../../core/backend.js'
import { NAME_BYTES_MAX, refOf } from '../../core/names.js'
import type { RedisLink } from './link.js'
import { NO_ROUND, NxStore, viewOf } from './nx-store.js'

export const SET_NX_GUARANTEES: Guarantees = {
  keptBy: 'lease',
  safety: 'single-node',
  // The fence is the server's time. Nothing remembers the last one, so a clock that is set back takes it back, too.
  fencing: 'best-effort',
  waiting: 'poll',
  fair: false,
  weights: 'none',
  shows: 'claims',
  limitMax: 1,
  clock: 'server-wall',
  ttlMinMs: 50,
  ttlMaxMs: 2 ** 31 - 1,
  ttlStepMs: 1,
  nameBytesMax: NAME_BYTES_MAX,
}

export interface SetNxOptions {
  /** What the keys begin with; the rest of a key is the name as it is. */
  readonly prefix: string
}

/** How many resources one step of a listing looks at. */
const LIST_NAMES = 64

export class SetNxBackend implements Backend {
  readonly name = 'redis'
  readonly guarantees = SET_NX_GUARANTEES
  readonly #store: NxStore

  constructor(link: RedisLink, { prefix }: SetNxOptions) {
    this.#store = new NxStore(link, prefix)
  }

  /** The sink is not kept: nobody tells when a key is deleted. The first command shows whether the server can be used. */
  async open(): Promise<void> {
    await this.#store.greet()
  }

  async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const take = await this.#store.take(claim, patience.leaseMs)
    if (take.kind === 'taken') {
      return { kind: 'granted', fence: take.fence, leaseMs: take.leaseMs, weight: claim.weight }
    }
    return { kind: 'refused', retryAfterMs: take.by.remainingMs, holder: take.by.holder }
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const outcomes = await this.#store.renew(requests.map((request) => ({ ...request, round: NO_ROUND })))
    return outcomes.map((outcome) => {
      // One node of a cluster that is down must not cost the claims that live on the others.
      if (outcome.status === 'rejected') return 'unknown'
      return outcome.value ? 'renewed' : 'lost'
    })
  }

  async release(claim: Claim): Promise<Release> {
    return (await this.#store.release(claim)) ? 'released' : 'gone'
  }

  async inspect(resource: string): Promise<ResourceView> {
    return viewOf(resource, await this.#store.look(resource))
  }

  /** Other keys of the same server may begin alike, so only what looks like a lock of Holdfast is shown. */
  async *list(prefix: string): AsyncGenerator<ResourceView, void, void> {
    const names = await this.#store.names(prefix)
    for (let from = 0; from < names.length; from += LIST_NAMES) {
      const some = names.slice(from, from + LIST_NAMES)
      const found = await this.#store.lookAll(some)
      for (const [index, name] of some.entries()) {
        const one = found[index] ?? null
        if (one?.isOurs === true) yield viewOf(name, one)
      }
    }
  }

  async evict(resource: string, ref: string): Promise<Eviction> {
    const found = await this.#store.look(resource)
    if (found === null || refOf(found.identity) !== ref) return 'gone'
    return (await this.#store.remove(resource, found)) ? 'evicted' : 'gone'
  }

  async close(): Promise<void> {
    await this.#store.close()
  }
}
