/**
 * Locks that Consul keeps for a session: the claims of this client, and what becomes of them. How a claim is kept in keys is
 * the layout's; that one claim has a name at a time, and that nothing outlives its ttl unheard of, is decided here.
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
import { every, monotonicMs, within } from '../shared/clock.js'
import type { Entry } from './entry.js'
import { mayHaveHappened } from './errors.js'
import type { Keys } from './keys.js'
import type { ConsulStore } from './kv.js'
import type { Held, Layout, Taken } from './layout.js'
import { MutexLayout } from './mutex.js'
import { Renewals } from './renewals.js'
import { SemaphoreLayout } from './semaphore.js'
import type { ConsulSession } from './session.js'
import { type SessionKind, Sessions } from './sessions.js'
import { Views } from './views.js'
import { Watches } from './watches.js'

export interface SessionSettings {
  readonly guarantees: Guarantees
  readonly lockDelayMs: number
  readonly close: () => void
}

/** How often claims are looked at that nobody renews any more, or that could not be given up. */
const UPKEEP_MS = 250
/** How long an orderly end may take. What is left then goes with its session. */
const CLOSE_MS = 10_000

const REFUSED: Extract<Verdict, { kind: 'refused' }> = { kind: 'refused', retryAfterMs: null, holder: null }

export class ConsulSessionBackend implements Backend {
  readonly name = 'consul'
  readonly guarantees: Guarantees
  readonly #keys: Keys
  readonly #settings: SessionSettings
  readonly #layouts: Readonly<Record<SessionKind, Layout>>
  readonly #sessions: Sessions
  readonly #views: Views
  readonly #watches: Watches
  readonly #renewals: Renewals
  readonly #entries = new Map<string, Entry>()
  /** The claims that have, or are about to have, a mutex: Consul lets a session lock again what it has locked. */
  readonly #mutexes = new Map<string, Entry>()
  readonly #tidying = new Set<Promise<unknown>>()
  #sink: Sink | null = null
  #stopUpkeep: (() => void) | null = null

  constructor(store: ConsulStore, keys: Keys, settings: SessionSettings) {
    this.#keys = keys
    this.#settings = settings
    this.guarantees = settings.guarantees
    this.#layouts = { shared: new MutexLayout(store), own: new SemaphoreLayout(store) }
    this.#sessions = new Sessions(store, settings.lockDelayMs, (session) => this.#sessionEnded(session))
    this.#views = new Views(store, keys)
    this.#renewals = new Renewals(this.#layouts, this.#sessions, (entry) => this.#lost(entry))
    this.#watches = new Watches(store, (resource) => this.#sink?.hint(resource))
  }

  async open(sink: Sink): Promise<void> {
    await this.#sessions.reach()
    this.#sink = sink
    this.#stopUpkeep ??= every(UPKEEP_MS, () => this.#upkeep())
  }

  async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const askedAt = monotonicMs()
    for (;;) {
      const entry = this.#entries.get(claim.id)
      if (entry === undefined) {
        const other = claim.shape.kind === 'mutex' ? this.#mutexes.get(claim.resource) : undefined
        if (other === undefined) return await this.#enter(claim, patience, askedAt)
        if (other.phase !== 'leaving' && !other.isAbandoned) return { ...REFUSED, holder: other.claim }
        await other.done
        // What could not be given up keeps the name for as long as that lasts.
        if (this.#mutexes.get(claim.resource) === other) return REFUSED
      } else if (entry.phase === 'held' && !entry.isAbandoned) {
        return await this.#again(entry, askedAt)
      } else if (entry.phase === 'unanswered' && !entry.isAbandoned) {
        return await this.#take(entry, patience, askedAt)
      } else {
        await entry.done
        if (this.#entries.get(claim.id) === entry && entry.isAbandoned) return REFUSED
      }
    }
  }

  async #enter(claim: Claim, patience: Patience, askedAt: number): Promise<Verdict> {
    const place = this.#keys.of(claim.resource)
    const kind: SessionKind = claim.shape.kind === 'mutex' ? 'shared' : 'own'
    const entering = this.#sessions.enter(kind, claim.ttlMs)
    const entry: Omit<Entry, 'session'> & { session: ConsulSession | null } = {
      claim,
      place,
      kind,
      session: null,
      phase: 'taking',
      held: null,
      isAbandoned: false,
      until: askedAt + claim.ttlMs,
      done: entering.catch(() => {}),
    }
    this.#entries.set(claim.id, entry as Entry)
    if (kind === 'shared') this.#mutexes.set(claim.resource, entry as Entry)
    try {
      entry.session = await entering
    } catch (error) {
      this.#forget(entry as Entry)
      throw error
    }
    return await this.#take(entry as Entry, patience, askedAt)
  }

  async #take(entry: Entry, patience: Patience, askedAt: number): Promise<Verdict> {
    const taking = this.#taken(entry)
    entry.phase = 'taking'
    entry.done = taking.catch(() => {})
    let taken: Taken
    try {
      taken = await taking
    } catch (error) {
      this.#failed(entry, error)
      throw error
    }
    const { claim, place, session } = entry
    switch (taken.kind) {
      case 'taken':
        return await this.#granted(entry, taken.held, askedAt)
      case 'refused':
        if (patience.waitMs > 0 && !entry.isAbandoned) {
          const watched = this.#layouts[entry.kind].watched(place)
          this.#watches.wait(claim.id, { resource: claim.resource, ...watched }, taken.index)
        }
        this.#refused(entry)
        return { ...REFUSED, holder: taken.holder }
      case 'mismatched':
        this.#refused(entry)
        return taken
      case 'session-ended':
        this.#forget(entry)
        session.gone()
        return entry.isAbandoned ? REFUSED : await this.attempt(claim, patience)
    }
  }

  /** A session whose last renewal is long ago is renewed beside, so that the claim can rely on it for long. */
  async #taken({ kind, place, session, claim }: Entry): Promise<Taken> {
    const layout = this.#layouts[kind]
    if (session.isFresh) return await layout.take(place, session, claim)
    const renewing = session.renew()
    const [taken, renewed] = await Promise.allSettled([layout.take(place, session, claim), renewing])
    if (taken.status === 'rejected') throw taken.reason
    if (renewed.status === 'rejected' && taken.value.kind === 'taken') throw renewed.reason
    return taken.value
  }

  #failed(entry: Entry, error: unknown): void {
    if (mayHaveHappened(error)) {
      entry.phase = 'unanswered'
      this.#sessions.doubt(entry.kind, entry.session)
    } else if (!this.#sessions.isDoubtful(entry.session)) {
      this.#leave(entry)
    } else {
      entry.phase = 'unanswered'
    }
  }

  /** An earlier request without an answer may still get there, so the claim stays in its session for as long as it is wanted. */
  #refused(entry: Entry): void {
    if (this.#sessions.isDoubtful(entry.session) && !entry.isAbandoned) entry.phase = 'unanswered'
    else this.#leave(entry)
  }

  async #granted(entry: Entry, held: Held, askedAt: number): Promise<Verdict> {
    const { claim, session } = entry
    entry.held = held
    entry.phase = 'held'
    entry.until = monotonicMs() + claim.ttlMs
    this.#watches.leave(claim.id, claim.resource)
    if (entry.isAbandoned) {
      await this.#giveUp(entry)
      return REFUSED
    }
    // The session ended while the answer was on its way, and the claim with it.
    if (session.isEnded) {
      this.#leave(entry)
      return REFUSED
    }
    const leaseMs = Math.min(claim.ttlMs, session.aliveUntil - askedAt)
    return { kind: 'granted', fence: held.fence, leaseMs, weight: claim.weight }
  }

  /** A claim that has it already is answered for only after Consul was asked. */
  async #again(entry: Entry, askedAt: number): Promise<Verdict> {
    const { claim, held, session } = entry
    if (
      held === null ||
      !(await this.#renewals.confirm(session, [entry])).has(entry) ||
      entry.phase !== 'held'
    ) {
      return { ...REFUSED, retryAfterMs: 0 }
    }
    entry.until = Math.max(entry.until, monotonicMs() + claim.ttlMs)
    const leaseMs = Math.min(claim.ttlMs, entry.session.aliveUntil - askedAt)
    return { kind: 'granted', fence: held.fence, leaseMs, weight: claim.weight }
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return await this.#renewals.renew(requests.map((request) => ({ request, entry: this.#meant(request) })))
  }

  #meant({ claim, fence }: RenewRequest): Entry | null {
    const entry = this.#entries.get(claim.id)
    const isIt = entry?.phase === 'held' && !entry.isAbandoned && entry.held?.fence === fence
    return isIt ? entry : null
  }

  async release({ id, resource }: Claim): Promise<Release> {
    this.#watches.leave(id, resource)
    const entry = this.#entries.get(id)
    if (entry === undefined) return 'gone'
    entry.isAbandoned = true
    // First the session begins, then the lock is taken: what is under way is seen to its end, or it would come too late.
    while (entry.phase === 'taking' || entry.phase === 'leaving') {
      await entry.done
      if (this.#entries.get(id) !== entry) break
    }
    this.#watches.leave(id, resource)
    if (this.#entries.get(id) !== entry) return 'gone'
    return (await this.#giveUp(entry)) ? 'released' : 'gone'
  }

  async #giveUp(entry: Entry): Promise<boolean> {
    if (entry.phase === 'leaving') await entry.done
    if (this.#entries.get(entry.claim.id) !== entry) return false
    const { held, place, session, kind } = entry
    if (session.isEnded) {
      this.#leave(entry)
      return false
    }
    const before = entry.phase
    entry.phase = 'leaving'
    const layout = this.#layouts[kind]
    const leaving = held === null ? layout.giveUpUnknown(place, session) : layout.giveUp(held)
    entry.done = leaving.then(
      () => this.#leave(entry),
      () => {
        // Whatever went wrong, it may still be there if its session is, and can be given up again.
        if (session.isEnded) this.#leave(entry)
        else entry.phase = before
      },
    )
    const wasHeld = await leaving
    await entry.done
    return wasHeld
  }

  async inspect(resource: string): Promise<ResourceView> {
    return await this.#views.inspect(resource)
  }

  list(prefix: string): AsyncIterable<ResourceView> {
    return this.#views.list(prefix)
  }

  async evict(resource: string, ref: string): Promise<Eviction> {
    return await this.#views.evict(resource, ref)
  }

  async close(): Promise<void> {
    this.#stopUpkeep?.()
    this.#stopUpkeep = null
    this.#sink = null
    this.#watches.close()
    // What is locked, or about to be, is given up first: a session that ends with a lock in it delays whoever is next.
    const givingUp = Promise.allSettled([...this.#entries.values()].map(({ claim }) => this.release(claim)))
    await within(CLOSE_MS, givingUp, () => null).catch(() => {})
    await this.#sessions.close()
    await Promise.all(this.#tidying)
    this.#entries.clear()
    this.#mutexes.clear()
    this.#settings.close()
  }

  #sessionEnded(session: ConsulSession): void {
    for (const entry of this.#entries.values()) {
      if (entry.session === session && entry.phase === 'held') this.#lost(entry, 'session-ended')
    }
  }

  #lost(entry: Entry, reason: 'session-ended' | 'evicted' = 'evicted'): void {
    // The key of a holder that is out of the record goes with its session, which keeps nothing else.
    if (entry.kind === 'own') this.#sessions.doubt(entry.kind, entry.session)
    this.#leave(entry)
    this.#sink?.lost(entry.claim.id, reason)
  }

  #leave(entry: Entry): void {
    if (this.#entries.get(entry.claim.id) !== entry) return
    this.#forget(entry)
    const leaving = this.#sessions.leave(entry.kind, entry.session)
    if (entry.session.isEnded) this.#tidy(entry, leaving)
  }

  /** Somebody who is gone for good would do without it, so what goes wrong is of no account. */
  #tidy({ kind, place }: Entry, ending: Promise<void>): void {
    const tidying = ending
      .then(() => this.#layouts[kind].tidy?.(place))
      .catch(() => {})
      .finally(() => this.#tidying.delete(tidying))
    this.#tidying.add(tidying)
  }

  #forget(entry: Entry): void {
    const { id, resource } = entry.claim
    if (this.#entries.get(id) === entry) this.#entries.delete(id)
    if (this.#mutexes.get(resource) === entry) this.#mutexes.delete(resource)
  }

  /**
   * The core has stopped renewing some and holds them no more, but Consul would keep them as long as it hears from us. And
   * what could not be given up is tried again until it is gone, or its session is.
   */
  #upkeep(): void {
    const now = monotonicMs()
    for (const entry of this.#entries.values()) {
      const isOver = entry.isAbandoned || entry.until <= now
      if (!isOver || entry.phase === 'taking' || entry.phase === 'leaving') continue
      entry.isAbandoned = true
      this.#giveUp(entry).catch(() => {})
    }
  }
}
