/** Many names: locks that are kept, and locks that are taken once and never again. */

import type { Hold } from 'holdfast'
import { percentiles } from '../rotation.js'
import { openOurs } from './ours.js'
import { openBare } from './raw.js'
import type { Workplace } from './workplace.js'

/** The names `from`, `from + 1`, …, each once. */
export interface NamesAsk {
  readonly from: number
  readonly count: number
  readonly inFlight: number
}

async function forNames(
  { from, count, inFlight }: NamesAsk,
  act: (name: string) => Promise<unknown>,
): Promise<void> {
  let next = from
  const caller = async (): Promise<void> => {
    while (next < from + count) {
      const name = `name-${next}`
      next += 1
      await act(name)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, caller))
}

export interface FillAsk extends NamesAsk {
  readonly subject: 'ours' | 'bare'
  readonly ttlMs: number
}

/** Whatever is kept must stay reachable, or the engine could drop a hold and with it what it costs. */
const kept: unknown[] = []

/** Takes locks and keeps them, without anybody renewing them. */
export async function fillTask({ port }: Workplace, ask: FillAsk): Promise<void> {
  if (ask.subject === 'bare') {
    const client = await openBare(port, ask.ttlMs)
    await forNames(ask, async (name) => kept.push(await client.take(name)))
    return
  }
  const { locks } = await openOurs(port)
  const options = { ttlMs: ask.ttlMs, renew: false }
  await forNames(ask, async (name) => kept.push(await locks.mutex(name).acquire(options)))
}

export interface PassThroughAsk extends NamesAsk {
  readonly fenceMemoryMs: number
}

/** Takes every lock once and gives it back. */
export async function passThroughTask({ port }: Workplace, ask: PassThroughAsk): Promise<void> {
  const { locks, close } = await openOurs(port, { fenceMemoryMs: ask.fenceMemoryMs })
  await forNames(ask, async (name) => {
    const hold = await locks.mutex(name).acquire()
    await hold.release()
  })
  await close()
}

export interface KeepAsk extends NamesAsk {
  readonly ttlMs: number
}

const renewed: Hold[] = []

/** Takes locks and keeps them alive. */
export async function keepTask({ port }: Workplace, ask: KeepAsk): Promise<void> {
  const { locks } = await openOurs(port, { ttlMs: ask.ttlMs })
  await forNames(ask, async (name) => renewed.push(await locks.mutex(name).acquire()))
}

export interface Watched {
  readonly elapsedMs: number
  /** Processor time of this process. */
  readonly cpuMs: number
  /** How much later than asked for a timer came. */
  readonly lateP99Ms: number
  readonly lateMaxMs: number
  readonly stillHeld: number
}

const TICK_MS = 5

/** Does nothing but look at what keeping the locks costs. */
export async function watchTask(_workplace: Workplace, { forMs }: { forMs: number }): Promise<Watched> {
  const since = performance.now()
  const cpuBefore = process.cpuUsage()
  const late: number[] = []
  while (performance.now() - since < forMs) {
    const asked = performance.now()
    await new Promise((resolve) => {
      setTimeout(resolve, TICK_MS)
    })
    late.push(performance.now() - asked - TICK_MS)
  }
  const { user, system } = process.cpuUsage(cpuBefore)
  const [lateP99Ms = Number.NaN, lateMaxMs = Number.NaN] = percentiles(late, [99, 100])
  return {
    elapsedMs: performance.now() - since,
    cpuMs: (user + system) / 1_000,
    lateP99Ms,
    lateMaxMs,
    stillHeld: renewed.filter((hold) => hold.isHeld).length,
  }
}
