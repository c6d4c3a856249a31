/**
 * The line of claims where each claim is a node that a session keeps. What the nodes are and how they are made is the
 * store's; who holds is decided here, by the one rule, from what was read of those who decide.
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
import { idOfAnotherName } from '../../core/claim-text.js'
import { OutcomeUnknownError } from '../../core/errors.js'
import { admittedCount, blockersOf, sameShape } from '../../core/line.js'
import { every, monotonicMs } from '../shared/clock.js'
import { NOBODY_KNOWN } from '../shared/who.js'
import { type Asked, type Entry, isOutage, type Meant, settled } from './entry.js'
import type { Confirmed, Joined, LineNode, LineNodes, NodeSession, OwnNode, Read } from './nodes.js'
import { SessionPool } from './session-pool.js'

/** How often claims are looked at that nobody renews any more, or that could not be given up. */
const UPKEEP_MS = 250

const REFUSED: Verdict = { kind: 'refused', retryAfterMs: null, holder: null }

export class LineBackend<Session extends NodeSession, Own extends OwnNode> implements Backend {
  readonly name: string
  readonly guarantees: Guarantees
  readonly #nodes: LineNodes<Session, Own>
  readonly #pool: SessionPool<Session>
  readonly #entries = new Map<string, Entry<Session, Own>>()
  #sink: Sink | null = null
  #stopUpkeep: (() => void) | null = null

  constructor(nodes: LineNodes<Session, Own>) {
    this.name = nodes.name
    this.guarantees = nodes.guarantees
    this.#nodes = nodes
    this.#pool = new SessionPool(
      nodes.name,
      async (key, ended) => {
        const session: Session = await nodes.startSession(key, () => ended(session))
        return session
      },
      (session) => this.#sessionEnded(session),
    )
  }

  async open(sink: Sink): Promise<void> {
    this.#sink = sink
    this.#stopUpkeep ??= every(UPKEEP_MS, () => this.#upkeep())
  }

  async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const asked: Asked = { at: monotonicMs(), claim, patience }
    for (;;) {
      const entry = this.#entries.get(claim.id)
      if (entry === undefined) return await this.#enter(asked)
      if (entry.claim.resource !== claim.resource) throw idOfAnotherName()
      if (entry.phase === 'standing' && !entry.isAbandoned) return await this.#again(entry, asked)
      await entry.done
      // What could not be given up stands again, and is given up again by whoever asked for it.
      if (entry.phase === 'standing' && entry.isAbandoned) return REFUSED
    }
  }

  async #enter(asked: Asked): Promise<Verdict> {
    const { claim } = asked
    const key = this.#nodes.sessionKey(claim.ttlMs)
    const session = await this.#pool.enter(key)
    // Another attempt of the same claim may have come first, while this one waited for the session.
    if (this.#entries.has(claim.id)) {
      this.#pool.leave(session)
      return await this.attempt(claim, asked.patience)
    }
    const entry: Entry<Session, Own> = {
      claim,
      session,
      key,
      own: null,
      phase: 'joining',
      isAbandoned: false,
      until: monotonicMs() + claim.ttlMs,
      done: Promise.resolve(),
      unwatch: null,
    }
    this.#entries.set(claim.id, entry)
    return await this.#join(entry, asked)
  }

  /** A claim that stands already, or of which nobody knows whether it does. */
  async #again(entry: Entry<Session, Own>, asked: Asked): Promise<Verdict> {
    const { session, own } = entry
    const { claim } = asked
    if (session.isEnded) return await this.#anew(entry, asked)
    if (own === null) return await this.#join(entry, asked)
    if (claim.weight < entry.claim.weight) {
      entry.claim = claim
      await this.#nodes.lighten(session, claim, own)
    }
    const read = await this.#nodes.read(session, claim, own)
    // It may have been given up meanwhile: because nobody renewed it, because it was released, or with its session.
    if (this.#entries.get(claim.id) !== entry || entry.phase !== 'standing' || entry.isAbandoned)
      return REFUSED
    if (read === null) return await this.#anew(entry, asked)
    // The core counts on it for as long as the answer says, whenever it was renewed last.
    entry.until = Math.max(entry.until, monotonicMs() + claim.ttlMs)
    return await this.#judge(entry, own, read, asked)
  }

  /** The node is gone, by the end of its session or by somebody's hand. The claim is as good as new, and takes a new place. */
  async #anew(entry: Entry<Session, Own>, asked: Asked): Promise<Verdict> {
    this.#forget(entry)
    return await this.#enter(asked)
  }

  async #join(entry: Entry<Session, Own>, asked: Asked): Promise<Verdict> {
    const { claim, session } = entry
    entry.phase = 'joining'
    const joining = this.#nodes.join(session, claim)
    entry.done = settled(joining)
    let joined: Joined & { readonly own: Own }
    try {
      joined = await joining
    } catch (error) {
      entry.phase = 'standing'
      if (error instanceof OutcomeUnknownError) this.#pool.doubt(session)
      // Without a connection nothing was done; but an earlier try of the claim may have been.
      else if (!isOutage(error)) this.#forget(entry)
      throw error
    }
    entry.own = joined.own
    entry.phase = 'standing'
    entry.until = monotonicMs() + claim.ttlMs
    if (!entry.isAbandoned) return await this.#judge(entry, joined.own, joined, asked)
    await this.#leave(entry)
    return REFUSED
  }

  async #judge(entry: Entry<Session, Own>, own: Own, read: Read, asked: Asked): Promise<Verdict> {
    const { claim } = entry
    const { shape, weight } = claim
    const ahead = read.line.slice(0, -1)
    const [first] = ahead
    if (first !== undefined && !sameShape(first.shape, shape)) {
      await this.#leave(entry)
      return { kind: 'mismatched', shape: first.shape }
    }
    // One of another shape further on is about to be told so, and will be gone; until then nothing passes it.
    const weighed = ahead.map((node) =>
      sameShape(node.shape, shape) ? node : { ...node, weight: shape.limit },
    )
    const leaseMs = Math.min(asked.claim.ttlMs, read.aliveUntil - asked.at)
    if (first === undefined || admittedCount([...weighed, claim], shape.limit) > ahead.length) {
      this.#stopWatching(entry)
      return { kind: 'granted', fence: own.fence, leaseMs, weight }
    }
    const holder = (await this.#nodes.holderOf(claim, first)) ?? NOBODY_KNOWN
    if (asked.patience.waitMs === 0) {
      await this.#leave(entry)
      return { kind: 'refused', retryAfterMs: null, holder }
    }
    this.#watch(entry, own, weighed)
    const { fence } = own
    return { kind: 'waiting', fence, leaseMs, weight, ahead: ahead.length, retryAfterMs: null, holder }
  }

  /**
   * Nobody comes to stand ahead, so whoever is admitted without the one that left is admitted in fact, and need not ask: the
   * lease that it may rely on then is that of its last heartbeat.
   */
  #watch(entry: Entry<Session, Own>, own: Own, ahead: readonly LineNode[]): void {
    this.#stopWatching(entry)
    if (entry.phase !== 'standing') return
    const { claim, session } = entry
    const { weight, shape } = claim
    entry.unwatch = this.#nodes.watch(session, claim, blockersOf(ahead, weight, shape.limit), (gone) => {
      const left = ahead.filter(({ key }) => key !== gone?.key)
      const isAdmitted =
        left.length < ahead.length && admittedCount([...left, claim], shape.limit) > left.length
      if (isAdmitted && entry.phase === 'standing' && !session.isEnded)
        this.#sink?.granted(claim.id, own.fence)
      else this.#sink?.hint(claim.resource)
    })
  }

  #stopWatching(entry: Entry<Session, Own>): void {
    entry.unwatch?.()
    entry.unwatch = null
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const sentAt = monotonicMs()
    const meant = requests.map((request) => ({ request, entry: this.#meant(request) }))
    await Promise.all(meant.map(({ request, entry }) => this.#moveIfLonger(entry, request.leaseMs)))
    const sessions = new Set(meant.flatMap(({ entry }) => entry?.session ?? []))
    const confirming = [...sessions].map(
      async (session) => [session, await this.#confirm(session, meant)] as const,
    )
    const confirmed = new Map(await Promise.all(confirming))
    return meant.map(({ request: { leaseMs }, entry }) => {
      if (entry === null || entry.phase === 'leaving') return 'lost'
      const found = confirmed.get(entry.session)
      if (!found || entry.own === null) return 'unknown'
      if (!found.there.has(entry.own)) return 'lost'
      entry.until = Math.max(entry.until, monotonicMs() + leaseMs)
      return found.aliveUntil >= sentAt + leaseMs ? 'held' : 'unknown'
    })
  }

  #meant({ claim, fence }: RenewRequest): Entry<Session, Own> | null {
    const entry = this.#entries.get(claim.id)
    if (entry === undefined || entry.phase === 'leaving' || entry.isAbandoned) return null
    return entry.own === null || entry.own.fence === fence ? entry : null
  }

  /** null where there is no answer. What one session does not answer says nothing about the others. */
  async #confirm(session: Session, meant: readonly Meant<Session, Own>[]): Promise<Confirmed<Own> | null> {
    const own = meant.flatMap(({ entry }) => (entry?.session === session ? (entry.own ?? []) : []))
    try {
      return await this.#nodes.confirm(session, own)
    } catch (error) {
      if (isOutage(error)) return null
      throw error
    }
  }

  /** A lease that shall last longer than the session of its claim goes to a session that lasts. */
  async #moveIfLonger(entry: Entry<Session, Own> | null, leaseMs: number): Promise<void> {
    const nodes = this.#nodes
    const key = nodes.sessionKey(leaseMs)
    if (nodes.move === undefined || !entry?.own || key <= entry.key) return
    const { claim, session, own } = entry
    let to: Session | null = null
    try {
      to = await this.#pool.enter(key)
      if (await nodes.move(session, to, claim, own)) {
        entry.session = to
        entry.key = key
        to = session
      }
    } catch (error) {
      if (!isOutage(error)) throw error
      if (to !== null) this.#pool.doubt(to)
    } finally {
      if (to !== null) this.#pool.leave(to)
    }
  }

  async release({ id, resource }: Claim): Promise<Release> {
    const entry = this.#entries.get(id)
    if (entry === undefined || entry.claim.resource !== resource) return 'gone'
    entry.isAbandoned = true
    while (entry.phase !== 'standing') {
      await entry.done
      if (this.#entries.get(id) !== entry) return 'gone'
    }
    return (await this.#leave(entry)) ? 'released' : 'gone'
  }

  async #leave(entry: Entry<Session, Own>): Promise<boolean> {
    const { claim, session, own } = entry
    this.#stopWatching(entry)
    if (session.isEnded) {
      this.#forget(entry)
      return false
    }
    entry.isAbandoned = true
    entry.phase = 'leaving'
    const removing = this.#nodes.remove(session, claim, own)
    entry.done = removing.then(
      () => this.#forget(entry),
      () => {
        entry.phase = 'standing'
      },
    )
    const wasThere = await removing
    await entry.done
    return wasThere
  }

  async inspect(resource: string): Promise<ResourceView> {
    const line = await this.#nodes.view(resource)
    const shape = line[0]?.shape ?? null
    const admitted = shape === null ? 0 : admittedCount(line, shape.limit)
    const views = line.map(({ view, weight }) => ({ ...view, weight }))
    return { resource, shape, holders: views.slice(0, admitted), waiters: views.slice(admitted) }
  }

  async *list(prefix: string): AsyncIterable<ResourceView> {
    const names: string[] = []
    for await (const name of this.#nodes.names(prefix)) names.push(name)
    for (const name of names.sort()) {
      const view = await this.inspect(name)
      if (view.shape !== null) yield view
    }
  }

  async evict(resource: string, ref: string): Promise<Eviction> {
    const line = await this.#nodes.view(resource)
    const node = line.find(({ view }) => view.ref === ref)
    if (node === undefined) return 'gone'
    return (await this.#nodes.removeViewed(resource, node)) ? 'evicted' : 'gone'
  }

  async close(): Promise<void> {
    this.#stopUpkeep?.()
    this.#stopUpkeep = null
    this.#sink = null
    for (const entry of this.#entries.values()) this.#stopWatching(entry)
    this.#entries.clear()
    await this.#pool.close()
    await this.#nodes.close()
  }

  #sessionEnded(session: Session): void {
    for (const entry of this.#entries.values()) {
      if (entry.session !== session || entry.phase === 'joining') continue
      this.#forget(entry)
      if (!entry.isAbandoned) this.#sink?.lost(entry.claim.id, 'session-ended')
    }
  }

  #forget(entry: Entry<Session, Own>): void {
    this.#stopWatching(entry)
    if (this.#entries.get(entry.claim.id) !== entry) return
    this.#entries.delete(entry.claim.id)
    this.#pool.leave(entry.session)
  }

  /**
   * The core has stopped renewing some and holds them no more, but the store would keep them as long as it hears from us.
   * And what could not be given up is tried again until it is gone, or its session is.
   */
  #upkeep(): void {
    const now = monotonicMs()
    for (const entry of this.#entries.values()) {
      if (entry.phase !== 'standing' || (!entry.isAbandoned && entry.until > now)) continue
      this.#leave(entry).catch(() => {})
    }
  }
}
