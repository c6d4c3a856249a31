import type { Claim } from '../../core/backend.js'
import type { Place } from './keys.js'
import type { Held } from './layout.js'
import type { ConsulSession } from './session.js'
import type { SessionKind } from './sessions.js'

/** One claim of this client, as far as this client knows. */
export interface Entry {
  readonly claim: Claim
  readonly place: Place
  readonly kind: SessionKind
  session: ConsulSession
  /** `unanswered`: a request to take it had no answer. It may be there, or get there late. */
  phase: 'taking' | 'unanswered' | 'held' | 'leaving'
  held: Held | null
  /** Nobody wants it any more, so it is given up as soon as that is possible. */
  isAbandoned: boolean
  /** When it is given up unless it is renewed. It is later than what the core believes, and so frees nothing too soon. */
  until: number
  /** Settles when what is being done to it is done, and never rejects. */
  done: Promise<unknown>
}
