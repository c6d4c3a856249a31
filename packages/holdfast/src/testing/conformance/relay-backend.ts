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
  Sink,
  Verdict,
} from '../../core/backend.js'

/** Passes every call on as it is. What stands between the core and a store changes only what it is about. */
export class RelayBackend implements Backend {
  protected readonly inner: Backend

  constructor(inner: Backend) {
    this.inner = inner
  }

  get name(): string {
    return this.inner.name
  }

  get guarantees(): Guarantees {
    return this.inner.guarantees
  }

  open(sink: Sink): Promise<void> {
    return this.inner.open(sink)
  }

  attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    return this.inner.attempt(claim, patience)
  }

  renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return this.inner.renew(requests)
  }

  release(claim: Claim): Promise<Release> {
    return this.inner.release(claim)
  }

  inspect(resource: string): Promise<ResourceView> {
    return this.inner.inspect(resource)
  }

  list(prefix: string): AsyncIterable<ResourceView> {
    return this.inner.list(prefix)
  }

  evict(resource: string, ref: string): Promise<Eviction> {
    return this.inner.evict(resource, ref)
  }

  close(): Promise<void> {
    return this.inner.close()
  }
}
