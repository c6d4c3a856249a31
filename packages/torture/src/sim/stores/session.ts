import type { Claim, Guarantees, Patience, Release, Renewal, RenewRequest, Verdict } from 'holdfast/backend'
import type { SimProcess } from '../process.js'
import { GUARANTEES, NO_OWN_FAULT, QueueStore } from './base.js'
import type { QueueEntry } from './queue.js'
import type { StoreClient, StoreFault, StoreSetting, StruckStore } from './store.js'

/** How many leases a session outlives without a request. It must be at least the longest lease that callers ask for. */
const TIMEOUT_LEASES = [2, 4]

interface Session {
  heardAt: number
}

/**
 * A store whose entries belong to the session of their process, like ZooKeeper. They have no lease: they end with the
 * session, when the store has not heard from the process for the timeout, or when a fault ends the session. A waiter whose
 * turn comes gets the grant itself, or only a hint, like from a watch.
 */
export class SessionStore extends QueueStore {
  readonly type = 'session'
  override readonly isOrdered = true
  override readonly faults = ['session-end'] as const
  readonly guarantees: Guarantees
  readonly #timeoutMs: number
  readonly #hints: boolean
  readonly #sessions = new Map<StoreClient, Session>()

  constructor(setting: StoreSetting) {
    super(setting, { isLeased: false })
    this.#timeoutMs = setting.random.pick(TIMEOUT_LEASES) * setting.ttlMs
    this.#hints = setting.random.chance(0.5)
    this.guarantees = { ...GUARANTEES, keptBy: 'session', ttlMaxMs: Math.max(this.#timeoutMs, 200) }
  }

  override attempt(
    client: StoreClient,
    claim: Claim,
    patience: Patience,
    reply: (verdict: Verdict) => void,
  ): void {
    this.#hear(client)
    super.attempt(client, claim, patience, reply)
  }

  override renew(client: StoreClient, request: RenewRequest): Renewal {
    this.#hear(client)
    return super.renew(client, request)
  }

  override release(client: StoreClient, claim: Claim): Release {
    this.#hear(client)
    return super.release(client, claim)
  }

  protected override admitted({ client, id, fence, resource }: QueueEntry): void {
    if (this.#hints) client.sink.hint(resource)
    else client.sink.granted(id, fence)
  }

  override strike(fault: StoreFault, victim: SimProcess): StruckStore {
    if (fault !== 'session-end') return NO_OWN_FAULT(fault)
    for (const client of this.#sessions.keys()) if (client.process === victim) this.#end(client)
    return { what: `the session of ${victim.name} ends`, forgetsFences: false }
  }

  /** A program that replaces its client has a session for each. The end of a connection ends its session. */
  closed(client: StoreClient): void {
    this.#end(client)
  }

  #hear(client: StoreClient): void {
    const session = this.#sessions.get(client)
    if (session !== undefined) {
      session.heardAt = this.time.nowMs
      return
    }
    const started = { heardAt: this.time.nowMs }
    this.#sessions.set(client, started)
    this.#watch(client, started)
  }

  #watch(client: StoreClient, session: Session): void {
    const endsAt = session.heardAt + this.#timeoutMs
    this.time.schedule(endsAt, () => {
      if (this.#sessions.get(client) !== session) return
      if (session.heardAt + this.#timeoutMs > this.time.nowMs) this.#watch(client, session)
      else this.#end(client)
    })
  }

  #end(client: StoreClient): void {
    if (!this.#sessions.delete(client)) return
    const ids: string[] = []
    this.table.remove((entry) => {
      if (entry.client !== client) return false
      ids.push(entry.id)
      return true
    })
    for (const id of ids) client.sink.lost(id, 'session-ended')
  }
}
