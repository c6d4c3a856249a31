/** Says of claims that are held whether they still are, and has Consul keep them for longer. */

import type { Renewal, RenewRequest } from '../../core/backend.js'
import { monotonicMs } from '../shared/clock.js'
import type { Entry } from './entry.js'
import type { Layout } from './layout.js'
import type { ConsulSession } from './session.js'
import type { SessionKind, Sessions } from './sessions.js'

/** A renewal, and the claim that it is for; null if there is none. */
export interface Meant {
  readonly request: RenewRequest
  readonly entry: Entry | null
}

export class Renewals {
  readonly #layouts: Readonly<Record<SessionKind, Layout>>
  readonly #sessions: Sessions
  readonly #onLost: (entry: Entry) => void

  constructor(
    layouts: Readonly<Record<SessionKind, Layout>>,
    sessions: Sessions,
    onLost: (entry: Entry) => void,
  ) {
    this.#layouts = layouts
    this.#sessions = sessions
    this.#onLost = onLost
  }

  async renew(meant: readonly Meant[]): Promise<readonly Renewal[]> {
    const askedAt = monotonicMs()
    await Promise.all(meant.map((each) => this.#moveIfLonger(each)))
    const bySession = new Map<ConsulSession, Entry[]>()
    for (const { entry } of meant) {
      if (entry === null) continue
      const entries = bySession.get(entry.session)
      if (entries === undefined) bySession.set(entry.session, [entry])
      else entries.push(entry)
    }
    const asked = [...bySession].map(([session, entries]) => this.#confirmedOrNull(session, entries))
    const confirmed = new Map((await Promise.all(asked)).map((each) => [each.session, each.there]))
    return meant.map(({ request: { leaseMs }, entry }) => {
      if (entry === null || entry.phase !== 'held') return 'lost'
      const there = confirmed.get(entry.session) ?? null
      if (there === null) return 'unknown'
      if (!there.has(entry)) return 'lost'
      entry.until = Math.max(entry.until, monotonicMs() + leaseMs)
      return entry.session.aliveUntil >= askedAt + leaseMs ? 'held' : 'unknown'
    })
  }

  /** null where there is no answer: what one session does not answer says nothing about the others. */
  async #confirmedOrNull(
    session: ConsulSession,
    entries: readonly Entry[],
  ): Promise<{ readonly session: ConsulSession; readonly there: ReadonlySet<Entry> | null }> {
    try {
      return { session, there: await this.confirm(session, entries) }
    } catch {
      return { session, there: null }
    }
  }

  /** Those that are there. The session is renewed, too: a key alone says nothing of how long it will be. */
  async confirm(session: ConsulSession, entries: readonly Entry[]): Promise<ReadonlySet<Entry>> {
    const [first] = entries
    if (first === undefined) return new Set()
    const held = new Map(entries.flatMap((entry) => (entry.held === null ? [] : [[entry.held, entry]])))
    const looking = this.#layouts[first.kind].stillThere([...held.keys()])
    const [isAlive, there] = await Promise.all([session.renew(), looking])
    if (!isAlive) return new Set()
    for (const [each, entry] of held) {
      if (!there.has(each) && entry.held === each && entry.phase === 'held') this.#onLost(entry)
    }
    return new Set([...there].flatMap((each) => held.get(each) ?? []))
  }

  /** A lease that shall last longer than the session of its claim goes to a session that lasts. */
  async #moveIfLonger({ entry, request: { leaseMs } }: Meant): Promise<void> {
    if (entry === null || leaseMs <= entry.session.ttlMs || entry.held === null) return
    const { kind, session: from, held, claim } = entry
    let to: ConsulSession | null = null
    let isDoubtful = true
    try {
      to = await this.#sessions.enter(kind, leaseMs)
      const moved = await this.#layouts[kind].move(held, to, claim)
      isDoubtful = false
      if (moved === null || entry.phase !== 'held') return
      entry.held = moved
      entry.session = to
      void this.#sessions.leave(kind, from)
      to = null
    } catch {
      // The renewal that follows says what can be said; it does not promise more than the session keeps.
    } finally {
      if (to !== null) {
        if (isDoubtful) this.#sessions.doubt(kind, to)
        void this.#sessions.leave(kind, to)
      }
    }
  }
}
