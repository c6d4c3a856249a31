import type { Guarantees } from '../../core/backend.js'
import { LIMIT_MAX } from '../../core/line.js'
import { NAME_BYTES_MAX } from '../../core/names.js'

/** What the recipe `sequential` guarantees in a session that allows leases of up to this length. */
export function guaranteesFor(ttlMaxMs: number): Guarantees {
  return {
    keptBy: 'session',
    safety: 'consensus',
    fencing: 'strict',
    waiting: 'push',
    fair: true,
    weights: 'any',
    shows: 'claims',
    limitMax: LIMIT_MAX,
    // The leader counts in ticks of its own; no wall clock has a say.
    clock: 'server-monotonic',
    ttlMinMs: 50,
    ttlMaxMs,
    ttlStepMs: 1,
    nameBytesMax: NAME_BYTES_MAX,
  }
}
