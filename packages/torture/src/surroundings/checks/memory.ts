/**
 * Memory: what lives in the process and what the server keeps is the same after N acquisitions and after 2N. Nothing is
 * measured in bytes of the heap unless there are many acquisitions; objects are counted instead.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { recordsUrlOf } from '../places.js'
import type { Counts } from '../probes/probe.js'
import { type Check, type Finding, freshName, type Subject } from '../subject.js'
import { came, messageOf } from '../waiting.js'
import { abandonedReaders, OF_CONNECTIONS } from './memory-readers.js'
import { WORK, type Workplace } from './memory-work.js'
import { CLOSURES, objectCounts } from './objects.js'

/** What was seen after one round. */
interface Measured {
  readonly server: Counts
  readonly objects: Counts
  readonly heapBytes: number
}

/** The first rounds fill caches and pools. */
const WARM_UP_ROUNDS = 1
const ROUNDS = 3
const ROUNDS_MAX = 12
/** Of the slowest kinds of calls there are this many times fewer. */
const SLOWEST_SHARE = 4
/** With many acquisitions, bytes of the heap that may stay for each. A closure takes more. */
const HEAP_BYTES_PER_ACQUISITION = 24
/** A server may need a moment to notice that something is over. */
const SETTLE_MS = 5_000

export const memory: Check = async (subject) => {
  const { library, url, sizes, ttlMs } = subject
  const warnings: Error[] = []
  const warned = (warning: Error): unknown => warnings.push(warning)
  process.on('warning', warned)
  const recordsUrl = recordsUrlOf(subject)
  const place: Workplace = {
    locks: await library.holdfast.connect(url),
    other: await library.holdfast.connect(url),
    idempotency: recordsUrl === null ? null : await library.idempotency.connectIdempotency(recordsUrl),
    signal: new AbortController().signal,
    name: freshName('memory'),
    ttlMs,
  }
  const findings: Finding[] = []
  try {
    for (let round = 0; round < WARM_UP_ROUNDS; round += 1)
      await workRound(place, Math.min(sizes.acquisitions, 200))
    const measured: Measured[] = []
    // What seems to grow is looked at for longer: a cache or a pool that fills up stops growing, and a leak does not.
    let growing: readonly Finding[] = []
    for (let round = 0; round < ROUNDS || (round < ROUNDS_MAX && growing.length > 0); round += 1) {
      await workRound(place, sizes.acquisitions)
      measured.push(await measure(subject, place, measured.at(-1)))
      growing = judge(measured, subject)
    }
    findings.push(...growing)
    findings.push(...(await abandonedReaders(subject, place)))
  } finally {
    await Promise.allSettled([place.locks.close(), place.other.close(), place.idempotency?.close()])
    process.off('warning', warned)
  }
  findings.push(...warnings.filter(isLeakWarning).map(asFinding))
  return findings
}

async function workRound(place: Workplace, times: number): Promise<void> {
  for (const { name, applies, run } of WORK) {
    if (!applies(place)) continue
    try {
      await run(place, times)
    } catch (error) {
      throw new Error(`${name}: ${messageOf(error)}`, { cause: error })
    }
  }
}

/** Waits, within limits, until the server has no more than after the last round. */
async function measure(
  { probe }: Subject,
  { signal }: Workplace,
  before: Measured | undefined,
): Promise<Measured> {
  let server = await probe()
  if (before !== undefined) {
    await came(
      async () => {
        server = await probe()
        return Object.entries(server).every(([name, count]) => count <= (before.server[name] ?? 0))
      },
      { limitMs: SETTLE_MS, pauseMs: 100 },
    )
  } else await sleep(100)
  const objects = await objectCounts(signal)
  return { server, objects, heapBytes: process.memoryUsage().heapUsed }
}

function judge(
  measured: readonly Measured[],
  { sizes: { acquisitions, heap } }: Subject,
): readonly Finding[] {
  // A leak adds at least one object for each call of the kind that leaks.
  const few = Math.floor(acquisitions / SLOWEST_SHARE)
  const findings = [
    ...grown(
      'on the server',
      measured.map(({ server }) => server),
      (name) => (OF_CONNECTIONS.test(name) ? few : 1),
    ),
    ...grown(
      'in the process',
      measured.map(({ objects }) => objects),
      // Node makes closures of its own for some rounds, so only a leak of the frequent kinds of calls can be told from them.
      (name) => (name === CLOSURES ? acquisitions : few),
    ),
  ]
  if (heap) {
    const bytes = Math.min(...stepsOf(measured.map(({ heapBytes }) => heapBytes))) / acquisitions
    if (bytes > HEAP_BYTES_PER_ACQUISITION) {
      findings.push({ what: 'heap', message: `grows by ${bytes.toFixed(0)} bytes for each acquisition` })
    }
  }
  return findings
}

/** What grows by at least so much in every round but one, because a collection may come late. What grows once is a cache. */
function grown(
  where: string,
  rounds: readonly Counts[],
  atLeast: (name: string) => number,
): readonly Finding[] {
  const names = Object.keys(rounds.at(-1) ?? {})
  return names.flatMap((name) => {
    const counts = rounds.map((counts) => counts[name] ?? 0)
    if (!isGrowing(counts, atLeast(name))) return []
    return [{ what: name, message: `grows ${where} from round to round: ${counts.join(', ')}` }]
  })
}

function isGrowing(counts: readonly number[], atLeast: number): boolean {
  const steps = stepsOf(counts)
  const large = steps.filter((step) => step >= atLeast).length
  const total = (counts.at(-1) ?? 0) - (counts[0] ?? 0)
  return steps.length > 0 && large >= Math.max(1, steps.length - 1) && total >= atLeast * steps.length
}

function stepsOf(values: readonly number[]): readonly number[] {
  return values.slice(1).map((value, index) => value - (values[index] ?? 0))
}

function isLeakWarning({ name }: Error): boolean {
  return name === 'MaxListenersExceededWarning'
}

function asFinding({ name, message }: Error): Finding {
  return { what: name, message }
}
