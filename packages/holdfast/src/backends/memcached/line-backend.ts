/** What both recipes do: the rule over a line in an item, with one round trip where nobody else is there. */

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
import { type Decision, decide, type Place, renewedExpiry, viewLine } from '../../core/line.js'
import { refOf } from '../../core/names.js'
import { monotonicMs } from '../shared/clock.js'
import { Ages } from './ages.js'
import type { MemcachedClient } from './client.js'
import { stillOnItsWay } from './errors.js'
import { isForeign, type Lines, mayHaveHappened, type Step, type Written } from './lines.js'
import { listKeys } from './listing.js'
import { type Entry, entryFor, liveIn, placeOf, type ReadLine } from './stored.js'
import { latestMs, ticksFor } from './ticks.js'
import { Underway } from './underway.js'

/** What is remembered of claims is a help, not a truth: it may be dropped, but it must not grow without end. */
const REMEMBERED_MAX = 100_000

/** What an attempt hears that its claim's release has overtaken. */
const ENDED: Verdict = { kind: 'refused', retryAfterMs: null, holder: null }

export class LineBackend implements Backend {
  readonly name = 'memcached'
  readonly guarantees: Guarantees
  readonly #client: MemcachedClient
  readonly #lines: Lines
  /** Whether those who have to wait stand in the line. */
  readonly #queues: boolean
  /** The claims that stand; with what was written where the claim is alone in its item. */
  readonly #standing = new Map<string, Written | null>()
  readonly #attempts = new Underway()
  readonly #ages = new Ages()
  /** The claims of which a request got no answer. */
  readonly #unsure = new Set<string>()

  constructor(client: MemcachedClient, lines: Lines, guarantees: Guarantees) {
    this.#client = client
    this.#lines = lines
    this.guarantees = guarantees
    this.#queues = guarantees.fair
  }

  /** The sink is not kept: memcached tells nobody anything, and waiting is polling. */
  async open(): Promise<void> {
    this.#lines.greeted(await this.#client.greet())
  }

  async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    try {
      return await this.#attempts.run(claim.id, (ticket) =>
        this.#attempt(claim, patience, () => ticket.ended),
      )
    } catch (error) {
      if (mayHaveHappened(error)) {
        if (this.#unsure.size >= REMEMBERED_MAX) this.#unsure.clear()
        this.#unsure.add(claim.id)
      }
      throw error
    }
  }

  async #attempt(claim: Claim, patience: Patience, hasEnded: () => boolean): Promise<Verdict> {
    const { id, resource, shape } = claim
    if (!this.#standing.has(id) && claim.weight <= shape.limit) {
      const written = await this.#lines.begin(resource, shape, entryFor(claim, 0, ticksFor(claim.ttlMs)))
      if (written !== null) {
        this.#remember(id, written)
        return { kind: 'granted', fence: null, leaseMs: claim.ttlMs, weight: claim.weight }
      }
    }
    const { answer, written } = await this.#lines.change(resource, (line) =>
      hasEnded() ? { kind: 'answer', answer: ENDED } : this.#consider(line, claim, patience),
    )
    if (answer.kind !== 'granted' && answer.kind !== 'waiting') this.#standing.delete(id)
    else if (written !== null || !this.#standing.has(id)) this.#remember(id, written)
    return answer
  }

  #consider(line: ReadLine | null, claim: Claim, patience: Patience): Step<Verdict> {
    const read = line ?? { shape: claim.shape, entries: [], now: 0, date: 0, name: null }
    const live = liveIn(read)
    const decision = decide(
      live.map((entry) => placeOf(entry, read)),
      claim,
      patience,
      0,
    )
    switch (decision.kind) {
      case 'mismatched':
        return { kind: 'answer', answer: decision }
      case 'refused':
        return { kind: 'answer', answer: { ...decision, retryAfterMs: firstEnd(live, read.now) } }
      case 'join':
        return this.#join(read, live, claim, decision)
      case 'stand':
        return stand(read, live, decision)
    }
  }

  #join(
    read: ReadLine,
    live: readonly Entry[],
    claim: Claim,
    decision: Extract<Decision, { kind: 'join' }>,
  ): Step<Verdict> {
    if (!decision.admitted && !this.#queues) {
      const { holder } = decision
      return { kind: 'answer', answer: { kind: 'refused', retryAfterMs: firstEnd(live, read.now), holder } }
    }
    const entry = entryFor(claim, read.now, ticksFor(decision.leaseMs))
    const answer = verdictOf(decision, live, read.now)
    return { kind: 'write', shape: claim.shape, entries: [...live, entry], answer, isOwn: live.length === 0 }
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const groups = new Map<string, number[]>()
    for (const [index, { claim }] of requests.entries()) {
      const group = groups.get(claim.resource)
      if (group === undefined) groups.set(claim.resource, [index])
      else group.push(index)
    }
    const renewals: Renewal[] = []
    const errors: unknown[] = []
    const one = async (group: readonly number[]): Promise<void> => {
      let outcomes: readonly Renewal[]
      try {
        outcomes = await this.#renewTogether(group.map((index) => requests[index] as RenewRequest))
      } catch (error) {
        errors.push(error)
        outcomes = group.map(() => 'unknown')
      }
      for (const [nth, index] of group.entries()) renewals[index] = outcomes[nth] as Renewal
    }
    await Promise.all([...groups.values()].map(one))
    if (errors.length > 0 && errors.length === groups.size) throw errors[0]
    return renewals
  }

  /** The claims of one resource are renewed by one change of its line. */
  async #renewTogether(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const [first] = requests as readonly [RenewRequest, ...RenewRequest[]]
    if (requests.length === 1 && (await this.#renewAlone(first))) return ['renewed']
    const { answer, written } = await this.#lines.change(first.claim.resource, (line) => {
      return renewStep(line, requests)
    })
    for (const [index, { claim }] of requests.entries()) {
      if (answer[index] === 'lost') this.#standing.delete(claim.id)
      else if (written !== null) this.#remember(claim.id, requests.length === 1 ? written : null)
    }
    return answer
  }

  /** In one round trip, where the item is still what this client wrote. false: it has to be looked at. */
  async #renewAlone({ claim, leaseMs }: RenewRequest): Promise<boolean> {
    const known = this.#standing.get(claim.id)
    // A shorter life than the item has must not be written, and what is left of it is not known here.
    if (!known || known.ticks === null || leaseMs === 0 || ticksFor(leaseMs) !== known.ticks) return false
    if (known.version.generation !== this.#lines.items.generation) return false
    const joinedAt = Math.round((known.joinedMs - monotonicMs()) / 1_000)
    const entry = { ...entryFor(claim, 0, known.ticks), joinedAt }
    const written = await this.#lines.rewrite(claim.resource, claim.shape, entry, known)
    if (typeof written === 'string') return false
    if (this.#standing.get(claim.id) === known) this.#remember(claim.id, written)
    return true
  }

  async release(claim: Claim): Promise<Release> {
    // One that is still under way would come after the release, and leave an entry that nobody removes.
    const attempts = this.#attempts.end(claim.id)
    if (attempts !== null) await attempts
    const known = this.#standing.get(claim.id)
    this.#standing.delete(claim.id)
    const isRemoved = (known && (await this.#removeAlone(claim, known))) ?? (await this.#leave(claim))
    if (isRemoved || !this.#unsure.delete(claim.id)) return isRemoved ? 'released' : 'gone'
    throw stillOnItsWay(claim.resource)
  }

  /** null: the item is not as this client wrote it, or is not certain to be, and has to be looked at. */
  async #removeAlone({ resource }: Claim, { version, ticks }: Written): Promise<boolean | null> {
    // The number of a change means something only to the process of the server that gave it: after a restart, it can be
    // that of somebody else's item.
    if (ticks === null || version.generation !== this.#lines.items.generation) return null
    const outcome = await this.#lines.items.remove(this.#lines.keys.keyOf(resource), version)
    return outcome === 'changed' ? null : outcome === 'removed'
  }

  async #leave({ id, resource }: Claim): Promise<boolean> {
    return await this.#remove(resource, (entry) => entry.id === id)
  }

  async #remove(resource: string, isIt: (entry: Entry) => boolean): Promise<boolean> {
    const { answer } = await this.#lines.change<boolean>(resource, (line) => {
      const live = line === null ? [] : liveIn(line)
      const entries = live.filter((entry) => !isIt(entry))
      if (line === null || entries.length === live.length) return { kind: 'answer', answer: false }
      return { kind: 'write', shape: line.shape, entries, answer: true, isOwn: false }
    })
    return answer
  }

  async inspect(resource: string): Promise<ResourceView> {
    const line = await this.#lines.read(resource)
    const places = line === null ? [] : liveIn(line).map((entry) => this.#shownPlace(entry, line))
    return viewLine(resource, places, 0)
  }

  #shownPlace(entry: Entry, line: ReadLine): Place {
    return { ...placeOf(entry, line), joinedAt: -this.#ages.of(entry, line.now - entry.joinedAt) }
  }

  /** The keys lie in no order, so the names are gathered before they can be put in one. */
  async *list(prefix: string): AsyncGenerator<ResourceView, void, void> {
    const { keys } = this.#lines
    const names = new Set<string>()
    for (const key of await listKeys(this.#client, (each) => keys.nameIn(each) !== null)) {
      const name = keys.nameIn(key) ?? (await this.#lines.nameStoredIn(key))
      if (name?.startsWith(prefix) && keys.keyOf(name) === key) names.add(name)
    }
    const inOrder = [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    for (const name of inOrder) {
      const view = await this.#inspectOwn(name)
      if (view.shape !== null) yield view
    }
  }

  /** For a listing, what is no line of this recipe is nothing. */
  async #inspectOwn(resource: string): Promise<ResourceView> {
    try {
      return await this.inspect(resource)
    } catch (error) {
      if (isForeign(error)) return viewLine(resource, [], 0)
      throw error
    }
  }

  async evict(resource: string, ref: string): Promise<Eviction> {
    return (await this.#remove(resource, ({ id }) => refOf(id) === ref)) ? 'evicted' : 'gone'
  }

  async close(): Promise<void> {
    this.#standing.clear()
    this.#unsure.clear()
    this.#client.close()
  }

  #remember(id: string, written: Written | null): void {
    if (this.#standing.size >= REMEMBERED_MAX) this.#standing.clear()
    this.#standing.set(id, written)
  }
}

/** The claim stands already: whether anything must be written for it. */
function stand(
  read: ReadLine,
  live: readonly Entry[],
  decision: Extract<Decision, { kind: 'stand' }>,
): Step<Verdict> {
  const { place, extend, weight, ahead, leaseMs } = decision
  const answer = verdictOf(decision, live.slice(0, ahead), read.now)
  // An entry that has expired may be renewed yet by somebody who read it in time. Only a change of the item makes sure
  // that it is not; so nobody is let in past such an entry without one.
  const hasExpired = live.length < read.entries.length
  if (!hasExpired && !extend && weight === place.weight) return { kind: 'answer', answer }
  const entries = live.map((entry) => {
    if (entry.id !== place.id) return entry
    const endsAt = extend ? Math.max(entry.endsAt, read.now + ticksFor(leaseMs)) : entry.endsAt
    return { ...entry, weight, endsAt }
  })
  return { kind: 'write', shape: read.shape, entries, answer, isOwn: live.length === 1 }
}

function renewStep(line: ReadLine | null, requests: readonly RenewRequest[]): Step<readonly Renewal[]> {
  const live = line === null ? [] : liveIn(line)
  const now = line?.now ?? 0
  const ends = new Map<string, number>()
  const answer = requests.map(({ claim, fence, leaseMs }): Renewal => {
    const entry = live.find(({ id }) => id === claim.id)
    const place = entry && { expiresAt: ends.get(claim.id) ?? entry.endsAt, fence: null }
    const endsAt = renewedExpiry(place, { fence, leaseMs: leaseMs > 0 ? ticksFor(leaseMs) : 0 }, now)
    if (endsAt === null) return 'lost'
    ends.set(claim.id, endsAt)
    return 'renewed'
  })
  const entries = live.map((entry) => ({ ...entry, endsAt: ends.get(entry.id) ?? entry.endsAt }))
  const isChanged = entries.some(({ endsAt }, index) => endsAt !== live[index]?.endsAt)
  if (line === null || !isChanged) return { kind: 'answer', answer }
  const isOwn = live.length === 1
  return { kind: 'write', shape: line.shape, entries, answer, isOwn }
}

function verdictOf(
  { admitted, leaseMs, weight, ahead, holder }: Extract<Decision, { kind: 'join' | 'stand' }>,
  before: readonly Entry[],
  now: number,
): Verdict {
  if (admitted) return { kind: 'granted', fence: null, leaseMs, weight }
  const retryAfterMs = firstEnd(before, now)
  return { kind: 'waiting', fence: null, leaseMs, weight, ahead, retryAfterMs, holder }
}

/** When the first of them ends by itself, at the latest. */
function firstEnd(entries: readonly Entry[], now: number): number | null {
  if (entries.length === 0) return null
  return latestMs(Math.min(...entries.map(({ endsAt }) => endsAt - now)))
}
