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
import { ClosedError } from '../../core/errors.js'
import {
  admittedCount,
  decide,
  isLive,
  LIMIT_MAX,
  type Place,
  renewedExpiry,
  viewLine,
} from '../../core/line.js'
import { refOf } from '../../core/names.js'
import { TIMER_MAX_MS } from '../../core/timing.js'
import { processClock } from './clock.js'

/** Time as the store sees it. */
export interface StoreClock {
  nowMs(): number
}

interface Entry extends Place {
  readonly sink: Sink
  /** Whether its claimant knows already that it is admitted. */
  readonly told: boolean
}

const SWEEP_EVERY_JOINS = 1_024

/** The lines themselves. Backends that share a store see each other's locks. */
export class MemoryStore {
  readonly #lines = new Map<string, Entry[]>()
  readonly #clock: StoreClock
  #lastFence = 0n
  #joins = 0

  constructor(clock: StoreClock = processClock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#lines.size
  }

  attempt(claim: Claim, patience: Patience, sink: Sink): Verdict {
    const now = this.#clock.nowMs()
    const line = this.#live(claim.resource, now)
    const decision = decide(line, claim, patience, now)
    if (decision.kind === 'mismatched' || decision.kind === 'refused') return decision
    const { admitted, leaseMs, ahead, retryAfterMs, holder } = decision
    const expiresAt = now + leaseMs
    let fence: bigint | null
    if (decision.kind === 'join') {
      this.#sweepNowAndThen(now)
      this.#lastFence += 1n
      fence = this.#lastFence
      const { id, shape, weight, owner, note } = claim
      const entry = { id, shape, weight, fence, joinedAt: now, expiresAt, owner, note, sink, told: admitted }
      this.#lines.set(claim.resource, [...line, entry])
      if (!admitted) this.#ask(line, sink)
    } else {
      fence = decision.place.fence
      const { weight } = decision
      this.#replace(claim.resource, line, claim.id, (entry) => ({
        ...entry,
        weight,
        expiresAt,
        told: admitted,
      }))
      this.#tell(claim.resource)
    }
    return admitted
      ? { kind: 'granted', fence, leaseMs }
      : { kind: 'waiting', fence, leaseMs, ahead, retryAfterMs, holder }
  }

  renew(request: RenewRequest): Renewal {
    const { claim } = request
    const line = this.#lines.get(claim.resource) ?? []
    const place = line.find(({ id }) => id === claim.id)
    const expiresAt = renewedExpiry(place, request, this.#clock.nowMs())
    if (expiresAt === null) return 'lost'
    this.#replace(claim.resource, line, claim.id, (entry) => ({ ...entry, expiresAt }))
    return 'renewed'
  }

  release({ id, resource }: Claim): Release {
    return this.#remove(resource, (entry) => entry.id === id) ? 'released' : 'gone'
  }

  evict(resource: string, ref: string): Eviction {
    return this.#remove(resource, (entry) => refOf(entry.id) === ref) ? 'evicted' : 'gone'
  }

  inspect(resource: string): ResourceView {
    const now = this.#clock.nowMs()
    return viewLine(resource, this.#live(resource, now), now)
  }

  names(prefix: string): string[] {
    // In the order of their UTF-8 bytes, as every other store lists them.
    const bytesOf = (name: string): Buffer => Buffer.from(name)
    return [...this.#lines.keys()]
      .filter((name) => name.startsWith(prefix))
      .toSorted((a, b) => Buffer.compare(bytesOf(a), bytesOf(b)))
  }

  #live(resource: string, now: number): Entry[] {
    const line = this.#lines.get(resource)
    if (line === undefined) return []
    return line.every((entry) => isLive(entry, now)) ? line : line.filter((entry) => isLive(entry, now))
  }

  /** Lines whose claims all expired go unseen until their name comes up again, which it may never do. */
  #sweepNowAndThen(now: number): void {
    this.#joins += 1
    if (this.#joins % SWEEP_EVERY_JOINS !== 0) return
    for (const [resource, line] of this.#lines) {
      if (!line.some((entry) => isLive(entry, now))) this.#lines.delete(resource)
    }
  }

  #remove(resource: string, isMeant: (entry: Entry) => boolean): boolean {
    const line = this.#live(resource, this.#clock.nowMs())
    const rest = line.filter((entry) => !isMeant(entry))
    if (rest.length === 0) this.#lines.delete(resource)
    else this.#lines.set(resource, rest)
    this.#tell(resource)
    return rest.length < line.length
  }

  #replace(resource: string, line: readonly Entry[], id: string, change: (entry: Entry) => Entry): void {
    this.#lines.set(
      resource,
      line.map((entry) => (entry.id === id ? change(entry) : entry)),
    )
  }

  /** Pushes the grant to every claim that has become admitted. The push goes out after the change is complete. */
  #tell(resource: string): void {
    const line = this.#live(resource, this.#clock.nowMs())
    const limit = line[0]?.shape.limit
    if (limit === undefined) return
    const admitted = admittedCount(line, limit)
    const news = line.slice(0, admitted).filter((entry) => !entry.told)
    if (news.length === 0) return
    this.#lines.set(
      resource,
      line.map((entry, index) => (index < admitted && !entry.told ? { ...entry, told: true } : entry)),
    )
    const isWanted = admitted < line.length
    queueMicrotask(() => {
      for (const { sink, id, fence } of news) {
        if (isWanted) sink.wanted(id)
        sink.granted(id, fence)
      }
    })
  }

  /** The first who has to wait tells those who hold; those behind need not repeat it. */
  #ask(line: readonly Entry[], by: Sink): void {
    const holders = line.filter(({ told, sink }) => told && sink !== by)
    if (line.some(({ told }) => !told)) return
    queueMicrotask(() => {
      for (const { sink, id } of holders) sink.wanted(id)
    })
  }
}

const GUARANTEES: Guarantees = {
  keptBy: 'lease',
  safety: 'single-node',
  // The numbers begin again with the process, which a resource that outlives it would notice.
  fencing: 'best-effort',
  waiting: 'push',
  fair: true,
  weights: 'any',
  shows: 'claims',
  limitMax: LIMIT_MAX,
  clock: 'server-monotonic',
  ttlMinMs: 50,
  ttlMaxMs: TIMER_MAX_MS,
  ttlStepMs: 1,
  nameBytesMax: 512,
}

const stores = new Map<string, MemoryStore>()

/** The store of this name in this process, made on first use. */
export function memoryStore(name: string): MemoryStore {
  const found = stores.get(name)
  if (found !== undefined) return found
  const store = new MemoryStore()
  stores.set(name, store)
  return store
}

/** Locks within one process: for tests, and for programs that are one process. */
export function memoryBackend(store: MemoryStore = new MemoryStore()): Backend {
  return new MemoryBackend(store)
}

class MemoryBackend implements Backend {
  readonly name = 'memory'
  readonly guarantees = GUARANTEES
  readonly #store: MemoryStore
  #sink: Sink | null = null

  constructor(store: MemoryStore) {
    this.#store = store
  }

  get identity(): MemoryStore {
    return this.#store
  }

  async open(sink: Sink): Promise<void> {
    this.#sink = sink
  }

  async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    return this.#store.attempt(claim, patience, this.#open())
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    this.#open()
    return requests.map((request) => this.#store.renew(request))
  }

  async release(claim: Claim): Promise<Release> {
    this.#open()
    return this.#store.release(claim)
  }

  async inspect(resource: string): Promise<ResourceView> {
    this.#open()
    return this.#store.inspect(resource)
  }

  async *list(prefix: string): AsyncGenerator<ResourceView> {
    this.#open()
    for (const name of this.#store.names(prefix)) {
      const view = this.#store.inspect(name)
      if (view.shape !== null) yield view
    }
  }

  async evict(resource: string, ref: string): Promise<Eviction> {
    this.#open()
    return this.#store.evict(resource, ref)
  }

  async close(): Promise<void> {
    this.#sink = null
  }

  #open(): Sink {
    if (this.#sink === null) throw new ClosedError({ backend: this.name })
    return this.#sink
  }
}
