import type {
  Backend,
  Eviction,
  Guarantees,
  Release,
  Renewal,
  RenewRequest,
  ResourceView,
  Verdict,
} from '../../src/backend.js'

export const GUARANTEES: Guarantees = {
  keptBy: 'lease',
  safety: 'single-node',
  fencing: 'strict',
  waiting: 'push',
  fair: true,
  weights: true,
  limitMax: 2 ** 31 - 1,
  clock: 'server-monotonic',
  ttlMinMs: 50,
  ttlMaxMs: 2 ** 31 - 1,
  ttlStepMs: 1,
  nameBytesMax: 512,
}

/** A store that grants everything and counts what reaches it, so that a test can say: nothing did. */
export class CountingBackend implements Backend {
  readonly name = 'counting'
  readonly guarantees: Guarantees
  calls = 0
  #fence = 0n

  constructor(differences: Partial<Guarantees> = {}) {
    this.guarantees = { ...GUARANTEES, ...differences }
  }

  async open(): Promise<void> {
    this.calls += 1
  }

  async attempt(): Promise<Verdict> {
    this.calls += 1
    this.#fence += 1n
    return { kind: 'granted', fence: this.#fence, leaseMs: 30_000 }
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    this.calls += 1
    return requests.map(() => 'renewed')
  }

  async release(): Promise<Release> {
    this.calls += 1
    return 'released'
  }

  async inspect(resource: string): Promise<ResourceView> {
    this.calls += 1
    return { resource, shape: null, holders: [], waiters: [] }
  }

  async *list(): AsyncGenerator<ResourceView> {
    this.calls += 1
    yield { resource: 'x', shape: null, holders: [], waiters: [] }
  }

  async evict(): Promise<Eviction> {
    this.calls += 1
    return 'gone'
  }

  async close(): Promise<void> {
    this.calls += 1
  }
}
