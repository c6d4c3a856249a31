/** Callers who all want one lock, and what can be read off their notes. */

import { setTimeout as sleep } from 'node:timers/promises'
import { percentiles } from '../rotation.js'
import { machineMs } from './clock.js'
import type { RedisWorker as Worker } from './worker.js'
import type { Workplace } from './workplace.js'

export interface ContendAsk {
  readonly subject: string
  readonly name: string
  readonly callers: number
  /** All processes start and stop at the same moment: one that is alone for a while counts more than all the others. */
  readonly startAt: number
  readonly forMs: number
  /** How many turns of the event loop a caller keeps the lock. */
  readonly holdTurns: number
}

/** Four numbers for each time that a caller had the lock. */
const NOTE = ['caller', 'asked', 'got', 'gave back'].length

/** The worker's part: every caller takes the lock and gives it back, over and over, and notes when. */
export async function contendTask(workplace: Workplace, ask: ContendAsk): Promise<Float64Array> {
  const client = await workplace.client(ask.subject)
  const until = ask.startAt + ask.forMs
  const notes: number[] = []
  const call = async (caller: number): Promise<void> => {
    while (machineMs() < until) {
      const asked = machineMs()
      const release = await client.take(ask.name)
      const got = machineMs()
      for (let turn = 0; turn < ask.holdTurns; turn += 1) await loopTurn()
      notes.push(caller, asked, got, machineMs())
      await release()
    }
  }
  await sleep(Math.max(0, ask.startAt - machineMs()))
  await Promise.all(Array.from({ length: ask.callers }, (_, caller) => call(caller)))
  return Float64Array.from(notes)
}

function loopTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

export interface Contention {
  readonly acquisitionsPerSecond: number
  /** Only those acquisitions that went to another caller than the one before. */
  readonly handOversPerSecond: number
  readonly acquisitions: number
  /**
   * The waits that ended with a hand-over. A caller who takes back what it has just given back waits for nobody, and
   * where one caller does that all the time, the waits of all others are too few to show in a percentile of all.
   */
  readonly waitP50Ms: number
  readonly waitP99Ms: number
  readonly waitMaxMs: number
  /** The same over all acquisitions. */
  readonly anyWaitP99Ms: number
  /** How often somebody had the lock before the one before had begun to give it back. Any is a fault. */
  readonly overlaps: number
}

/** Time for the order to reach every worker, and to open its connection if that is still to do. */
const LEAD_MS = 60

export async function contend(
  crew: readonly Worker[],
  setting: Omit<ContendAsk, 'startAt'>,
): Promise<Contention> {
  const startAt = machineMs() + LEAD_MS
  const notes = await Promise.all(crew.map((worker) => worker.call('contend', { ...setting, startAt })))
  return readNotes(notes, startAt + setting.forMs, setting)
}

export function readNotes(
  notes: readonly Float64Array[],
  until: number,
  { forMs, callers }: Pick<ContendAsk, 'forMs' | 'callers'>,
): Contention {
  const owners: number[] = []
  const waits: number[] = []
  const gots: number[] = []
  const ends: number[] = []
  for (const [process, ofProcess] of notes.entries()) {
    for (let at = 0; at < ofProcess.length; at += NOTE) {
      const got = ofProcess[at + 2] ?? 0
      owners.push(process * callers + (ofProcess[at] ?? 0))
      // Those who got it only after the end have waited, too, and often the longest.
      waits.push(got - (ofProcess[at + 1] ?? 0))
      gots.push(got)
      ends.push(ofProcess[at + 3] ?? 0)
    }
  }
  const order = Uint32Array.from(gots.keys()).sort((a, b) => (gots[a] ?? 0) - (gots[b] ?? 0))
  const handOverWaits: number[] = []
  let acquisitions = 0
  let handOvers = 0
  let overlaps = 0
  let before: number | null = null
  for (const at of order) {
    const got = gots[at] ?? 0
    const isHandOver = before === null || owners[before] !== owners[at]
    if (before !== null && got < (ends[before] ?? 0)) overlaps += 1
    if (isHandOver) handOverWaits.push(waits[at] ?? 0)
    if (got <= until) acquisitions += 1
    if (got <= until && isHandOver) handOvers += 1
    before = at
  }
  const [waitP50Ms, waitP99Ms, waitMaxMs] = percentiles(handOverWaits, [50, 99, 100])
  return {
    acquisitionsPerSecond: acquisitions / (forMs / 1_000),
    handOversPerSecond: handOvers / (forMs / 1_000),
    acquisitions,
    waitP50Ms: waitP50Ms ?? Number.NaN,
    waitP99Ms: waitP99Ms ?? Number.NaN,
    waitMaxMs: waitMaxMs ?? Number.NaN,
    anyWaitP99Ms: percentiles(waits, [99])[0] ?? Number.NaN,
    overlaps,
  }
}
