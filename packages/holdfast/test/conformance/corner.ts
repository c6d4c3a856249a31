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
} from '../../src/core/backend.js'
import { RelayBackend } from '../../src/testing.js'

/** Names of its own for each case, on a store that all cases share and that has no prefix or table to keep them apart. */
export class Corner extends RelayBackend {
  readonly #corner: string

  constructor(inner: Backend, corner: string) {
    super(inner)
    this.#corner = corner
  }

  override get guarantees(): Guarantees {
    const { guarantees } = this.inner
    return { ...guarantees, nameBytesMax: guarantees.nameBytesMax - this.#corner.length }
  }

  override attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    return super.attempt(this.#inside(claim), patience)
  }

  override renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return super.renew(requests.map((request) => ({ ...request, claim: this.#inside(request.claim) })))
  }

  override release(claim: Claim): Promise<Release> {
    return super.release(this.#inside(claim))
  }

  override async inspect(resource: string): Promise<ResourceView> {
    return { ...(await super.inspect(this.#corner + resource)), resource }
  }

  override async *list(prefix: string): AsyncGenerator<ResourceView> {
    for await (const view of super.list(this.#corner + prefix)) {
      yield { ...view, resource: view.resource.slice(this.#corner.length) }
    }
  }

  override evict(resource: string, ref: string): Promise<Eviction> {
    return super.evict(this.#corner + resource, ref)
  }

  #inside(claim: Claim): Claim {
    return { ...claim, resource: this.#corner + claim.resource }
  }
}
