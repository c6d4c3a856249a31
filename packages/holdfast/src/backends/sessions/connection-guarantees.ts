import type { Guarantees } from '../../core/backend.js'
import { NAME_BYTES_MAX } from '../../core/names.js'

/** What every recipe of this kind guarantees. */
export const CONNECTION_GUARANTEES: Guarantees = {
  keptBy: 'connection',
  safety: 'single-node',
  // Fences are the server's time: nothing remembers the last one, so a clock that is set back takes it back, too.
  fencing: 'best-effort',
  waiting: 'poll',
  fair: false,
  weights: 'none',
  shows: 'connections',
  limitMax: 1,
  clock: 'none',
  ttlMinMs: 50,
  // The server gives up a connection that is silent for longer than this, and every claim speaks up in a third of it.
  ttlMaxMs: 60_000,
  ttlStepMs: 1,
  nameBytesMax: NAME_BYTES_MAX,
}
