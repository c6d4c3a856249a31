/** Whether what a worker process keeps grows with the number of its acquisitions. */

import type { Violation } from '../check/verdict.js'
import { nowMicros } from '../history/recorder.js'
import type { HealthSample, WorkerHealth } from './health.js'

/** Sockets and timers that come and go with the state of a connection, whatever the number of acquisitions. */
const SPARE = 12
/** A shorter run says nothing about the slope of a heap: caches fill, and code is compiled. */
const HEAP_SECONDS_MIN = 60
/** Nor does a process that was started late, or killed early, and so has acquired little. */
const HEAP_ACQUISITIONS_MIN = 2_000
/** What one acquisition may leave in the heap. A closure with what it refers to is more. */
const BYTES_PER_ACQUISITION = 100
/** What a heap may grow by in any case. */
const HEAP_SPARE_BYTES = 2 ** 20

export function growthOf(process: string, health: WorkerHealth, seconds: number): Violation[] {
  const found = [
    ...listenersLeft(health),
    ...resourcesLeft(health),
    ...(seconds >= HEAP_SECONDS_MIN ? heapGrowth(health) : []),
  ]
  return found.map((what) => ({
    kind: 'growth',
    resource: '',
    at: nowMicros(),
    message: `${process}: ${what} after ${health.idle.acquired} acquisitions.`,
  }))
}

/** A caller that is done has no listener on any signal. */
function listenersLeft({ first, idle }: WorkerHealth): string[] {
  const found: string[] = []
  if (idle.signalListeners > 0) {
    found.push(`${idle.signalListeners} listeners are left on signals that callers passed to acquisitions`)
  }
  const more = idle.processListeners - first.processListeners
  if (more > SPARE) found.push(`the process has ${more} listeners more than at its start`)
  return found
}

function resourcesLeft({ first, working, idle, closed }: WorkerHealth): string[] {
  const found: string[] = []
  const [warm = first] = working
  for (const [name, count] of Object.entries(idle.resources)) {
    const before = Math.max(first.resources[name] ?? 0, warm.resources[name] ?? 0)
    if (count > before + SPARE) found.push(`${count} of ${name} are active and were ${before} before,`)
  }
  for (const [name, count] of Object.entries(closed.resources)) {
    const before = first.resources[name] ?? 0
    if (count > before)
      found.push(`${count} of ${name} are active though the client is closed, and were ${before} before,`)
  }
  return found
}

/** It has to grow in both halves of the run, so that a cache that fills once is not taken for a leak. */
function heapGrowth({ working, idle }: WorkerHealth): string[] {
  const samples = [...working, idle]
  const start = samples[0]
  const middle = samples[Math.floor(samples.length / 2)]
  if (start === undefined || middle === undefined || samples.length < 4) return []
  if (idle.acquired - start.acquired < HEAP_ACQUISITIONS_MIN) return []
  const bytes = idle.heapBytes - start.heapBytes
  const grew = bytes > HEAP_SPARE_BYTES && isSteep(start, middle) && isSteep(middle, idle)
  return grew ? [`the heap grew by ${Math.round(bytes / 1024)} KiB`] : []
}

function isSteep(from: HealthSample, to: HealthSample): boolean {
  return to.heapBytes - from.heapBytes > BYTES_PER_ACQUISITION * (to.acquired - from.acquired)
}
