/** What a worker process keeps: memory, listeners, timers and handles. */

import { getEventListeners } from 'node:events'

/** One look at a process, after a garbage collection. */
export interface HealthSample {
  /** How many locks its callers had acquired by then. */
  readonly acquired: number
  readonly heapBytes: number
  /** Listeners on the signals that the callers pass to many acquisitions. */
  readonly signalListeners: number
  /** Listeners on the process itself. */
  readonly processListeners: number
  /** What keeps the process alive, such as timers and sockets, by kind. */
  readonly resources: Readonly<Record<string, number>>
}

export interface WorkerHealth {
  /** Before it connected to the store. */
  readonly first: HealthSample
  /** While it worked, in order; the first of them is the end of the warm-up. */
  readonly working: readonly HealthSample[]
  /** When it had done all of its work. */
  readonly idle: HealthSample
  /** When it had closed its client. */
  readonly closed: HealthSample
}

export function takeSample(signals: readonly AbortSignal[], acquired: number): HealthSample {
  globalThis.gc?.()
  const resources: Record<string, number> = {}
  for (const name of process.getActiveResourcesInfo()) resources[name] = (resources[name] ?? 0) + 1
  return {
    acquired,
    heapBytes: process.memoryUsage().heapUsed,
    signalListeners: signals.reduce((sum, signal) => sum + getEventListeners(signal, 'abort').length, 0),
    processListeners: process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0),
    resources,
  }
}
