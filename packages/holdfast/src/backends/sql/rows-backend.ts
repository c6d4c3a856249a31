/**
 * The recipe `rows`: the line as rows of one table, each claim one row, decided inside the database in one step and by
 * its clock. The tables and routines come from `migrate()`, never from a request.
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
  Sink,
  Verdict,
} from '../../core/backend.js'
import { decide, LIMIT_MAX, viewLine } from '../../core/line.js'
import { NAME_BYTES_MAX, refOf } from '../../core/names.js'
import type { LineTable, Position } from './line-table.js'

/** How grants reach this client without being asked for. */
export interface Wakeup {
  /** The rest of the name of the channel; empty where nothing is pushed. */
  readonly channel: string
  open(heard: (message: string) => void, restored: () => void): Promise<void>
  close(): Promise<void>
}

export interface RowsParts {
  readonly name: string
  readonly table: LineTable
  /** null: whoever waits asks again and again. */
  readonly wakeup: Wakeup | null
  readonly schema: string
  migrate(): Promise<void>
  /** Tells whether the database can be used at all. */
  greet(): Promise<void>
  close(): Promise<void>
}

/** Both bound what one step of upkeep or of a listing asks of the database. */
const SWEEP_ROWS = 500
const LIST_ROWS = 500
/** Sweeping more rows than were added since the last sweep is what keeps the table from growing. */
const SWEEP_EVERY_JOINS = 256
/** The memory of placed claims is a help, not a truth: it may be dropped, but it must not grow without end. */
const PLACED_MAX = 100_000

export function rowsGuarantees(waiting: 'push' | 'poll'): Guarantees {
  return {
    keptBy: 'lease',
    safety: 'single-node',
    fencing: 'strict',
    waiting,
    fair: true,
    weights: 'any',
    shows: 'claims',
    limitMax: LIMIT_MAX,
    clock: 'server-wall',
    ttlMinMs: 50,
    ttlMaxMs: 2 ** 31 - 1,
    ttlStepMs: 1,
    nameBytesMax: NAME_BYTES_MAX,
  }
}

export class RowsBackend implements Backend {
  readonly name: string
  readonly guarantees: Guarantees
  readonly schema: string
  readonly #parts: RowsParts
  readonly #table: LineTable
  /** The places that were given to claims of this client and not seen to end. */
  readonly #placed = new Map<string, bigint>()
  /** The claims by their place: a push names the place, because the id of a claim is a secret. */
  readonly #byPlace = new Map<bigint, Claim>()
  /**
   * The attempts under way. They go over other connections than a release, which could overtake one, find nothing, and leave
   * standing what it then takes.
   */
  readonly #attempts = new Map<string, Promise<void>>()
  #sink: Sink | null = null
  #joins = 0
  #sweptTo: Position | null = null
  #sweeping = false

  constructor(parts: RowsParts) {
    this.name = parts.name
    this.schema = parts.schema
    this.guarantees = rowsGuarantees(parts.wakeup === null ? 'poll' : 'push')
    this.#parts = parts
    this.#table = parts.table
  }

  async open(sink: Sink): Promise<void> {
    this.#sink = sink
    await this.#parts.greet()
    await this.#parts.wakeup?.open(
      (message) => this.#heard(message),
      () => this.#wakeAll(),
    )
  }

  async migrate(): Promise<void> {
    await this.#parts.migrate()
  }

  attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const { id } = claim
    const attempt = this.#attempt(claim, patience)
    const settled = attempt.then(
      () => {},
      () => {},
    )
    const earlier = this.#attempts.get(id)
    const all = earlier === undefined ? settled : earlier.then(() => settled)
    this.#attempts.set(id, all)
    void all.then(() => {
      if (this.#attempts.get(id) === all) this.#attempts.delete(id)
    })
    return attempt
  }

  async #attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const place = this.#placed.get(claim.id)
    if (place !== undefined && this.#parts.wakeup === null) {
      const verdict = await this.#poll(claim, patience, place)
      if (verdict !== null) return verdict
    }
    const { verdict, isWanted } = await this.#table.take(claim, patience, {
      channel: this.#parts.wakeup?.channel ?? '',
      isNew: place === undefined,
    })
    this.#note(claim, verdict, place === undefined)
    if (isWanted) this.#sink?.wanted(claim.id)
    return verdict
  }

  /**
   * Answers a claim that stands from a plain read, or says with null that something must be written. A read may grant
   * only over rows that are gone: one that looks expired may have been renewed by a transaction that has read the clock
   * but not yet committed.
   */
  async #poll(claim: Claim, patience: Patience, place: bigint): Promise<Verdict | null> {
    const { live, hasExpired, now } = await this.#table.line(claim.resource, place)
    if (hasExpired) return null
    const decision = decide(live, claim, patience, now)
    if (decision.kind !== 'stand' || decision.extend || decision.weight !== decision.place.weight) return null
    const { admitted, leaseMs, weight, ahead, retryAfterMs, holder } = decision
    if (admitted) return { kind: 'granted', fence: place, leaseMs, weight }
    return { kind: 'waiting', fence: place, leaseMs, weight, ahead, retryAfterMs, holder }
  }

  /** Keeps account of where the claim stands, so that later requests know where to look. */
  #note(claim: Claim, verdict: Verdict, isNew: boolean): void {
    if (verdict.kind !== 'granted' && verdict.kind !== 'waiting') {
      this.#forget(claim.id)
      return
    }
    const fence = verdict.fence as bigint
    if (this.#placed.size >= PLACED_MAX) {
      this.#placed.clear()
      this.#byPlace.clear()
    }
    this.#placed.set(claim.id, fence)
    if (this.#parts.wakeup !== null) this.#byPlace.set(fence, claim)
    if (isNew) this.#sweepNowAndThen()
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    if (requests.length === 0) return []
    const alive = await this.#table.renew(requests)
    return requests.map(({ claim }, index) => {
      if (alive.has(index)) return 'renewed'
      this.#forget(claim.id)
      return 'lost'
    })
  }

  async release({ id, resource }: Claim): Promise<Release> {
    const attempts = this.#attempts.get(id)
    if (attempts !== undefined) await attempts
    const fence = this.#placed.get(id) ?? null
    this.#forget(id)
    return (await this.#table.leave(resource, id, fence)) ? 'released' : 'gone'
  }

  async inspect(resource: string): Promise<ResourceView> {
    const { live, now } = await this.#table.line(resource, null)
    return viewLine(resource, live, now)
  }

  /** Entries lie in the order of a hash, so the names are gathered before they can be put in order. */
  async *list(prefix: string): AsyncGenerator<ResourceView, void, void> {
    const found = new Set<string>()
    let after: Position | null = null
    do {
      const { names, next }: Awaited<ReturnType<LineTable['names']>> = await this.#table.names(
        after,
        LIST_ROWS,
      )
      for (const name of names) if (name.startsWith(prefix)) found.add(name)
      after = next
    } while (after !== null)
    const inOrder = [...found].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    for (const name of inOrder) {
      const view = await this.inspect(name)
      if (view.shape !== null) yield view
    }
  }

  async evict(resource: string, ref: string): Promise<Eviction> {
    const { live } = await this.#table.line(resource, null)
    const found = live.find(({ id }) => refOf(id) === ref)
    if (found === undefined) return 'gone'
    return (await this.#table.leave(resource, found.id, found.fence)) ? 'evicted' : 'gone'
  }

  async close(): Promise<void> {
    this.#sink = null
    this.#placed.clear()
    this.#byPlace.clear()
    await this.#parts.wakeup?.close()
    await this.#parts.close()
  }

  #forget(id: string): void {
    const fence = this.#placed.get(id)
    if (fence !== undefined) this.#byPlace.delete(fence)
    this.#placed.delete(id)
  }

  /** `g <fence> <wanted>`: admitted. `w <fence>`: somebody waits behind it. Anything else is nobody's business. */
  #heard(message: string): void {
    const [, what, number, wanted] = /^([gw]) (\d{1,16})(?: ([01]))?$/.exec(message) ?? []
    if (number === undefined) return
    const fence = BigInt(number)
    const claim = this.#byPlace.get(fence)
    if (claim === undefined) return
    if (what === 'w' || wanted === '1') this.#sink?.wanted(claim.id)
    if (what === 'g') this.#sink?.granted(claim.id, fence)
  }

  #wakeAll(): void {
    for (const resource of new Set([...this.#byPlace.values()].map((claim) => claim.resource))) {
      this.#sink?.hint(resource)
    }
  }

  /** What crashed holders left under names that nobody uses again does not pile up. No caller waits for it. */
  #sweepNowAndThen(): void {
    this.#joins += 1
    if (this.#joins % SWEEP_EVERY_JOINS !== 0 || this.#sweeping) return
    this.#sweeping = true
    this.#table
      .sweep(this.#sweptTo, SWEEP_ROWS)
      .then(
        (next) => {
          this.#sweptTo = next
        },
        // The next one goes on where this one was to begin.
        () => {},
      )
      .finally(() => {
        this.#sweeping = false
      })
  }
}
