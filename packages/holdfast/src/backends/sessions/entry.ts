import type { Claim, Patience, RenewRequest } from '../../core/backend.js'
import { BackendUnavailableError, OutcomeUnknownError } from '../../core/errors.js'

/** One claim of this client, as far as this client knows. */
export interface Entry<Session, Own> {
  claim: Claim
  session: Session
  /** The kind of the session. */
  key: number
  /** null: nobody answered yet, or nobody ever did. */
  own: Own | null
  phase: 'joining' | 'standing' | 'leaving'
  /** Nobody wants it any more, so it is given up as soon as that is possible. */
  isAbandoned: boolean
  /** When it is given up unless it is renewed. It is later than what the core believes, and so frees nothing too soon. */
  until: number
  /** Settles when what is being done to it is done, and never rejects. */
  done: Promise<unknown>
  unwatch: (() => void) | null
}

/** One question of the core, and when it came: leases count from there. */
export interface Asked {
  readonly at: number
  readonly claim: Claim
  readonly patience: Patience
}

/** A renewal, and the claim that it is for; null if there is none. */
export interface Meant<Session, Own> {
  readonly request: RenewRequest
  readonly entry: Entry<Session, Own> | null
}

/** The store was not reached, or did not answer: the request says nothing about the claim, and may succeed when repeated. */
export function isOutage(error: unknown): boolean {
  return error instanceof BackendUnavailableError || error instanceof OutcomeUnknownError
}

export async function settled(call: Promise<unknown>): Promise<void> {
  await call.catch(() => {})
}
