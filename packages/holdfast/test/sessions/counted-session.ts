/** A connection that keeps every lock it is asked for, and counts its listeners. */

import type { Held, Keeping, LockSession } from '../../src/backends/sessions/connection-backend.js'
import { CONNECTION_GUARANTEES } from '../../src/backends/sessions/connection-guarantees.js'

export class CountedSession implements LockSession {
  readonly isEnded = false
  readonly listeners = new Set<() => void>()

  onEnd(listener: () => void): () => void {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }
}

export function keepingOn(session: CountedSession): Keeping<CountedSession> {
  return {
    name: 'counted',
    guarantees: CONNECTION_GUARANTEES,
    open: async () => {},
    take: async () => ({ fence: 1n, session, connection: '1', sentAt: 0 }),
    giveUp: async () => true,
    alive: async (held: readonly Held<CountedSession>[]) => new Set(held),
    holder: async () => null,
    end: async () => true,
    close: async () => {},
  }
}
