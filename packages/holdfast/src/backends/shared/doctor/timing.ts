/** How far away a server is, and what its clock does. */

import type { Finding } from '../../../core/doctor.js'
import type { Clock } from '../../../core/runtime.js'
import { finding, ok } from './findings.js'

const PINGS = 11
const ASKS = 5
/** A lock that takes this long to ask for is slow for everybody who waits behind it. */
const SLOW_MS = 100
const FAR_APART_MS = 1_000

export async function measureLatency(ping: () => Promise<unknown>, clock: Clock): Promise<Finding[]> {
  const times: number[] = []
  for (let each = 0; each < PINGS; each += 1) {
    const startedAt = clock.monotonicMs()
    await ping()
    times.push(clock.monotonicMs() - startedAt)
  }
  const median = times.toSorted((a, b) => a - b)[Math.floor(PINGS / 2)] as number
  const found = `${inMs(median)} for a round trip, the median of ${PINGS}`
  if (median < SLOW_MS) return [ok('latency', found)]
  const advice =
    'An acquire and a release take one round trip each. Bring the locks nearer to those who use them.'
  return [finding('note', 'latency', found, advice)]
}

/**
 * Leases end by the server's clock, so what matters is that it goes forward. Holdfast never compares it with a clock of
 * this machine; that they differ is only a hint that one of them is wrong, and may be set one day. `read` gives null where
 * the server does not tell the time.
 */
export async function compareClocks(
  read: () => Promise<number | null>,
  clock: Clock,
  harmOfStep: string,
): Promise<Finding[]> {
  let last: number | null = null
  let best: Offset | null = null
  for (let each = 0; each < ASKS; each += 1) {
    const before = clock.wallMs()
    const server = await read()
    const after = clock.wallMs()
    if (server === null) return []
    if (last !== null && server < last) return [wentBack(last - server, harmOfStep)]
    last = server
    const offset = { least: server - after, most: server - before }
    if (best === null || offset.most - offset.least < best.most - best.least) best = offset
  }
  return best === null ? [] : [judge(best)]
}

/** The server's clock less this machine's lies between the two. */
interface Offset {
  readonly least: number
  readonly most: number
}

function judge({ least, most }: Offset): Finding {
  const apart = least > 0 ? least : most < 0 ? -most : 0
  if (apart < FAR_APART_MS) {
    // The clock of this machine is read in whole milliseconds, which is one more that it can be off.
    const atMost = Math.max(Math.abs(least), Math.abs(most)) + 1
    return ok('clock', `goes forward, and is at most ${inMs(atMost)} from this machine's`)
  }
  return finding(
    'note',
    'clock',
    `goes forward, but is ${(apart / 1_000).toFixed(1)} s ${least > 0 ? 'ahead of' : 'behind'} this machine's`,
    'Holdfast does not compare them, but one is wrong. Check the time service of both: when a clock is set, leases ' +
      'end early or late by as much.',
  )
}

function wentBack(ms: number, harm: string): Finding {
  return finding(
    'danger',
    'clock',
    `the server's clock went back by ${inMs(ms)} between two questions`,
    `${harm} Have the time service slew the clock and not step it.`,
  )
}

function inMs(ms: number): string {
  return `${ms < 10 ? Math.max(0.1, ms).toFixed(1) : Math.round(ms)} ms`
}
