import { asyncContexts } from '../../core/async-context.js'
import { ClosedError } from '../../core/errors.js'
import type { NodeSession } from './nodes.js'

/** How a store starts a session of a kind; `ended` is for the end that nobody here asked for. */
export type SessionStart<S extends NodeSession> = (key: number, ended: (session: S) => void) => Promise<S>

interface Current<S> {
  readonly started: Promise<S>
  session: S | null
}

/**
 * The sessions of one client. Claims share them, one for each kind.
 *
 * A request whose answer never came can be carried out late, after its claim was given up. What it makes then would stay
 * for as long as its session lives. So a session with such a request takes no more claims, and ends with the last one.
 */
export class SessionPool<S extends NodeSession> {
  readonly #start: SessionStart<S>
  readonly #ended: (session: S) => void
  readonly #backend: string
  /** Those that new claims go to, by kind. */
  readonly #current = new Map<number, Current<S>>()
  /** How many claims each session has. */
  readonly #claims = new Map<S, number>()
  readonly #doubtful = new Set<S>()
  #isClosed = false

  constructor(backend: string, start: SessionStart<S>, ended: (session: S) => void) {
    this.#backend = backend
    this.#start = start
    this.#ended = ended
  }

  /** The session for a new claim, which is counted as being in it until it leaves. */
  async enter(key: number): Promise<S> {
    for (;;) {
      if (this.#isClosed) throw new ClosedError({ backend: this.#backend })
      const current = this.#current.get(key) ?? this.#begin(key)
      const session = await current.started
      const count = this.#claims.get(session)
      // It may have ended, or come into doubt, while others waited for it, too.
      if (count === undefined || this.#current.get(key) !== current) continue
      this.#claims.set(session, count + 1)
      return session
    }
  }

  #begin(key: number): Current<S> {
    // Later callers use the session too, so it must not keep the async context of the first one.
    const started = asyncContexts.outside(() => this.#started(key))
    const current: Current<S> = { started, session: null }
    this.#current.set(key, current)
    current.started.then(
      (session) => {
        current.session = session
        if (!this.#claims.has(session)) this.#retire(session)
      },
      () => {
        if (this.#current.get(key) === current) this.#current.delete(key)
      },
    )
    return current
  }

  async #started(key: number): Promise<S> {
    const session = await this.#start(key, (ended) => {
      this.#forget(ended)
      this.#ended(ended)
    })
    if (this.#isClosed) await session.end()
    else if (!session.isEnded) this.#claims.set(session, 0)
    return session
  }

  leave(session: S): void {
    const count = this.#claims.get(session)
    if (count === undefined) return
    this.#claims.set(session, count - 1)
    if (count === 1 && this.#doubtful.has(session)) void this.#end(session)
  }

  /** It may make something late that nobody will know of. */
  doubt(session: S): void {
    if (!this.#claims.has(session)) return
    this.#doubtful.add(session)
    this.#retire(session)
    if (this.#claims.get(session) === 0) void this.#end(session)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#current.clear()
    await Promise.all([...this.#claims.keys()].map((session) => this.#end(session)))
  }

  async #end(session: S): Promise<void> {
    this.#forget(session)
    await session.end()
  }

  #forget(session: S): void {
    this.#claims.delete(session)
    this.#doubtful.delete(session)
    this.#retire(session)
  }

  #retire(session: S): void {
    for (const [key, current] of this.#current) if (current.session === session) this.#current.delete(key)
  }
}
