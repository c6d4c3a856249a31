/** What lives in this process, as numbers: a leak of one closure for each acquisition is a number that grows. */

import { getEventListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import v8 from 'node:v8'
import type { Counts } from '../probes/probe.js'

interface QueryObjects {
  readonly queryObjects?: (constructor: unknown, options: { readonly format: 'count' }) => number
}

/** The name of the count of closures, and so of listeners of every kind. */
export const CLOSURES = 'functions'

/** After everything that was under way has ended: objects by class, what the signal has, and what keeps the loop running. */
export async function objectCounts(signal: AbortSignal): Promise<Counts> {
  for (let round = 0; round < 3; round += 1) {
    await sleep(5)
    globalThis.gc?.()
  }
  const { queryObjects } = v8 as unknown as QueryObjects
  const counts: Record<string, number> = {
    'listeners of the shared signal': getEventListeners(signal, 'abort').length,
    'signals that depend on the shared signal': dependentsOf(signal),
    'active resources': process.getActiveResourcesInfo().length,
  }
  if (queryObjects === undefined) throw new Error('This check needs Node 20.13 or newer.')
  counts[CLOSURES] = queryObjects(Function, { format: 'count' })
  return counts
}

/** `AbortSignal.any()` keeps a set of the signals that depend on another one, as a property of it. */
function dependentsOf(signal: AbortSignal): number {
  let count = 0
  for (const key of Object.getOwnPropertySymbols(signal)) {
    const value: unknown = Reflect.get(signal, key)
    // It is a set of Node's own, whose prototype is not that of `Set`.
    const size: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, 'size') : null
    if (typeof size === 'number') count += size
  }
  return count
}
