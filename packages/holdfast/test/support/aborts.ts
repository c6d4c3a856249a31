import { performance } from 'node:perf_hooks'
import type { Hold } from '../../src/core/hold.js'
import { StallWatch } from '../../src/testing/conformance/waiting.js'

/**
 * When the signal of the hold aborted, on the scale of `performance.now()`, less the longest time for which this process
 * could not run: a timer cannot fire during a stall of the machine, and that is no fault of the library.
 */
export function abortOf({ signal }: Hold): Promise<number> {
  const stalls = new StallWatch()
  return new Promise((resolve) => {
    const aborted = (): void => resolve(performance.now() - stalls.stop())
    if (signal.aborted) aborted()
    else signal.addEventListener('abort', aborted, { once: true })
  })
}
