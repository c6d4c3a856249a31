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

/** An entry is changed in place: a queue may be long, and a poll or a renewal must not copy it. */
interface Entry extends Omit<Place, 'weight' | 'expiresAt'> {
  weight: number
  expiresAt: number
  readonly sink: Sink
  /** Whether its claimant knows already that it is admitted. */
  told: boolean
}

interface Line {
  /** In order of arrival. */
  entries: Entry[]
  readonly byId: Map<string, Entry>
  /** No entry ends before this time. A renewal may have made it later than that. */
  soonestEnd: number
}

const SWEEP_EVERY_JOINS = 1_024

/** The lines themselves. Backends that share a store see each other's locks. */
export class MemoryStore {
  readonly #lines = new Map<string, Line>()
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
    const decision = decide(line?.entries ?? [], claim, patience, now)
    if (decision.kind === 'mismatched' || decision.kind === 'refused') return decision
    const { admitted, leaseMs, weight, ahead, retryAfterMs, holder } = decision
    const expiresAt = now + leaseMs
    let fence: bigint | null
    if (decision.kind === 'join') {
      this.#sweepNowAndThen(now)
      this.#lastFence += 1n
      fence = this.#lastFence
      const { id, resource, shape, owner, note } = claim
      if (line !== null && !admitted) this.#ask(line.entries, sink)
      this.#join(resource, {
        id,
        shape,
        weight,
        fence,
        joinedAt: now,
        expiresAt,
        owner,
        note,
        sink,
        told: admitted,
      })
    } else {
      fence = decision.place.fence
      const entry = decision.place as Entry
      entry.weight = weight
      // Never earlier than before, so `soonestEnd` stays right.
      if (decision.extend) entry.expiresAt = expiresAt
      entry.told = admitted
      this.#tell(claim.resource)
    }
    return admitted
      ? { kind: 'granted', fence, leaseMs, weight }
      : { kind: 'waiting', fence, leaseMs, weight, ahead, retryAfterMs, holder }
  }

  renew(request: RenewRequest): Renewal {
    const { claim } = request
    const entry = this.#lines.get(claim.resource)?.byId.get(claim.id)
    const expiresAt = renewedExpiry(entry, request, this.#clock.nowMs())
    if (entry === undefined || expiresAt === null) return 'lost'
    entry.expiresAt = expiresAt
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
    return viewLine(resource, this.#live(resource, now)?.entries ?? [], now)
  }

  names(prefix: string): string[] {
    // In the order of their UTF-8 bytes, as every other store lists them.
    const bytesOf = (name: string): Buffer => Buffer.from(name)
    return [...this.#lines.keys()]
      .filter((name) => name.startsWith(prefix))
      .toSorted((a, b) => Buffer.compare(bytesOf(a), bytesOf(b)))
  }

  /** The line without the entries that have expired; null where nothing is left of it. */
  #live(resource: string, now: number): Line | null {
    const line = this.#lines.get(resource)
    if (line === undefined) return null
    if (line.soonestEnd > now) return line
    line.entries = line.entries.filter((entry) => {
      if (isLive(entry, now)) return true
      line.byId.delete(entry.id)
      return false
    })
    line.soonestEnd = line.entries.reduce(
      (first, { expiresAt }) => Math.min(first, expiresAt),
      Number.POSITIVE_INFINITY,
    )
    if (line.entries.length > 0) return line
    this.#lines.delete(resource)
    return null
  }

  /** Lines whose claims all expired go unseen until their name comes up again, which it may never do. */
  #sweepNowAndThen(now: number): void {
    this.#joins += 1
    if (this.#joins % SWEEP_EVERY_JOINS !== 0) return
    for (const resource of this.#lines.keys()) this.#live(resource, now)
  }

  #join(resource: string, entry: Entry): void {
    let line = this.#lines.get(resource)
    if (line === undefined) {
      line = { entries: [], byId: new Map(), soonestEnd: Number.POSITIVE_INFINITY }
      this.#lines.set(resource, line)
    }
    line.entries.push(entry)
    line.byId.set(entry.id, entry)
    line.soonestEnd = Math.min(line.soonestEnd, entry.expiresAt)
  }

  #remove(resource: string, isMeant: (entry: Entry) => boolean): boolean {
    const line = this.#live(resource, this.#clock.nowMs())
    if (line === null) return false
    const index = line.entries.findIndex(isMeant)
    for (const { id } of index < 0 ? [] : line.entries.splice(index, 1)) line.byId.delete(id)
    if (line.entries.length === 0) this.#lines.delete(resource)
    this.#tell(resource)
    return index >= 0
  }

  /** Pushes the grant to every claim that has become admitted. The push goes out after the change is complete. */
  #tell(resource: string): void {
    const line = this.#live(resource, this.#clock.nowMs())
    const limit = line?.entries[0]?.shape.limit
    if (line === null || limit === undefined) return
    const admitted = admittedCount(line.entries, limit)
    const news = line.entries.slice(0, admitted).filter((entry) => !entry.told)
    if (news.length === 0) return
    for (const entry of news) entry.told = true
    const isWanted = admitted < line.entries.length
    queueMicrotask(() => {
      for (const { sink, id, fence } of news) {
        if (isWanted) sink.wanted(id)
        sink.granted(id, fence)
      }
    })
  }

  /** The first who has to wait tells those who hold; those behind need not repeat it. */
  #ask(line: readonly Entry[], by: Sink): void {
    if (line.some(({ told }) => !told)) return
    const holders = line.filter(({ sink }) => sink !== by)
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
