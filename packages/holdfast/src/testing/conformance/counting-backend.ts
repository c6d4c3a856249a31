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
} from '../../core/backend.js'
import { RelayBackend } from './relay-backend.js'

export type CountedMethod = 'attempt' | 'renew' | 'release' | 'inspect' | 'list' | 'evict'

/** Counts the calls that reach the store, and notes the claim ids in them: nobody else should ever see those. */
export class CountingBackend extends RelayBackend {
  readonly #calls = new Map<CountedMethod, number>()
  readonly #claimIds = new Set<string>()

  /** How often one method was called; without a name, how often any was. */
  calls(method?: CountedMethod): number {
    if (method !== undefined) return this.#calls.get(method) ?? 0
    return [...this.#calls.values()].reduce((sum, count) => sum + count, 0)
  }

  get claimIds(): ReadonlySet<string> {
    return this.#claimIds
  }

  reset(): void {
    this.#calls.clear()
    this.#claimIds.clear()
  }

  override attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    this.#note('attempt', claim)
    return super.attempt(claim, patience)
  }

  override renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    this.#note('renew', ...requests.map(({ claim }) => claim))
    return super.renew(requests)
  }

  override release(claim: Claim): Promise<Release> {
    this.#note('release', claim)
    return super.release(claim)
  }

  override inspect(resource: string): Promise<ResourceView> {
    this.#note('inspect')
    return super.inspect(resource)
  }

  override list(prefix: string): AsyncIterable<ResourceView> {
    this.#note('list')
    return super.list(prefix)
  }

  override evict(resource: string, ref: string): Promise<Eviction> {
    this.#note('evict')
    return super.evict(resource, ref)
  }

  #note(method: CountedMethod, ...claims: readonly Claim[]): void {
    this.#calls.set(method, this.calls(method) + 1)
    for (const { id } of claims) this.#claimIds.add(id)
  }
}

/** Puts a counter in front of a backend. */
export function countingBackend(backend: Backend): CountingBackend {
  return new CountingBackend(backend)
}
