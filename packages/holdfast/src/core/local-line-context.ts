import type { Owner } from './backend.js'
import type { DeadlockWatch } from './deadlock-watch.js'
import type { KeepAlive } from './keep-alive.js'
import type { Machinery } from './machinery.js'
import type { Limits } from './options.js'
import type { Reports } from './reports.js'
import type { SeekIndex } from './seek-index.js'

/** What every local line of a client shares. */
export interface LocalLineContext extends Machinery {
  readonly owner: Owner
  readonly reports: Reports
  readonly seeks: SeekIndex
  readonly limits: Limits
  readonly keepAlive: KeepAlive
  /** Looks for deadlocks among those that wait; only where the claims say to which flow they belong. */
  readonly watch?: DeadlockWatch | null
  /** Its callers are one piece of work, which would wait for itself if a hold were to be handed over. */
  readonly isOneFlow?: boolean
  isClosed(): boolean
}
