/**
 * The recipe `record`: the whole line of a resource in one item, changed by compare-and-set. It is fair and knows shared
 * and weighted claims. As with everything in memcached, the item can vanish at any time.
 */

import type { Guarantees } from '../../core/backend.js'
import { LIMIT_MAX } from '../../core/line.js'
import { NAME_BYTES_MAX } from '../../core/names.js'
import { TTL_MAX_MS, TTL_MIN_MS } from './ticks.js'

export const RECORD_GUARANTEES: Guarantees = {
  keptBy: 'lease',
  // The server may drop any item to make room, and forgets all of them when it ends.
  safety: 'best-effort',
  fencing: 'none',
  waiting: 'poll',
  fair: true,
  weights: 'any',
  shows: 'claims',
  limitMax: LIMIT_MAX,
  clock: 'server-monotonic',
  ttlMinMs: TTL_MIN_MS,
  ttlMaxMs: TTL_MAX_MS,
  // The server counts in seconds, and what is asked for is rounded up to them. That says how late a dead claim ends, and
  // not what may be asked for; so a lease of 1,500 ms is no mistake.
  ttlStepMs: 1,
  nameBytesMax: NAME_BYTES_MAX,
}
