/** Which fault comes when. Pure: the same input gives the same schedule, so that a run can be repeated. */

import { SeededRandom } from 'holdfast/testing'
import type { FaultName } from '../stage/stage.js'

/** The faults that the workers can have, whatever the store is. */
export const WORKER_FAULTS = ['kill', 'pause', 'stall'] as const satisfies readonly FaultName[]

export type WorkerFaultName = (typeof WORKER_FAULTS)[number]

export function isWorkerFault(name: FaultName): name is WorkerFaultName {
  return (WORKER_FAULTS as readonly FaultName[]).includes(name)
}

/** A fault that may occur, and how long it lasts. */
export interface FaultKind {
  readonly name: FaultName
  readonly lastsMs: readonly [number, number]
}

export interface ScheduleInput {
  readonly seed: number
  readonly seconds: number
  readonly ttlMs: number
  readonly workers: number
  /** Of the workers, by name. */
  readonly workerFaults: readonly WorkerFaultName[]
  /** Of the stage. One name may stand here more than once, for faults of the same kind on different things. */
  readonly stageFaults: readonly FaultKind[]
}

export interface PlannedFault {
  readonly atMs: number
  readonly lastsMs: number
  readonly name: FaultName
  /** Which worker; null for faults of the stage. */
  readonly worker: number | null
  /** Which of the stage's faults; null for faults of workers. */
  readonly stageFault: number | null
  /** Decides what the stage does it to. */
  readonly seed: number
}

export interface Schedule {
  /** In order of time. */
  readonly faults: readonly PlannedFault[]
  /** When the last fault has ended, at the latest; from there on everything is left in peace. */
  readonly healAtMs: number
  /** When the workers are told to finish. */
  readonly endsAtMs: number
}

const WARM_UP_MS = 1_000
const HEAL_SHARE = 0.2
const HEAL_MS_MAX = 8_000
const GAP_MS: readonly [number, number] = [150, 700]

interface Card {
  readonly name: FaultName
  readonly lastsMs: readonly [number, number]
  readonly stageFault: number | null
}

/**
 * Two lanes, one of the workers' faults and one of the stage's, so that there are at most two faults at a time. Each lane
 * goes through all of its faults in random order before any of them comes again. If the first round does not fit into
 * the time, the run takes longer: a fault that did not occur would have been no test.
 */
export function planSchedule(input: ScheduleInput): Schedule {
  const random = new SeededRandom(input.seed)
  const totalMs = input.seconds * 1_000
  const warmUpMs = Math.min(WARM_UP_MS, totalMs / 10)
  const healMs = Math.min(HEAL_MS_MAX, totalMs * HEAL_SHARE)
  const until = totalMs - healMs
  const ofWorkers = input.workerFaults.map(
    (name): Card => ({
      name,
      lastsMs: lastingOf(name, input.ttlMs),
      stageFault: null,
    }),
  )
  const ofStage = input.stageFaults.map(
    ({ name, lastsMs }, stageFault): Card => ({ name, lastsMs, stageFault }),
  )
  const lane = (cards: readonly Card[]): PlannedFault[] =>
    planLane(cards, { random, from: warmUpMs, until, workers: input.workers })
  const faults = [...lane(ofWorkers), ...lane(ofStage)].sort((a, b) => a.atMs - b.atMs)
  const healAtMs = Math.max(until, ...faults.map(({ atMs, lastsMs }) => atMs + lastsMs))
  return { faults, healAtMs, endsAtMs: healAtMs + healMs }
}

/** A pause is from half a lease to two and a half: short of it, and well beyond it. A killed worker is away for a moment. */
function lastingOf(name: WorkerFaultName, ttlMs: number): readonly [number, number] {
  if (name === 'kill') return [50, Math.max(100, ttlMs / 2)]
  return name === 'pause' ? [ttlMs / 2, ttlMs * 2.5] : [ttlMs / 4, ttlMs * 1.5]
}

interface Lane {
  readonly random: SeededRandom
  readonly from: number
  readonly until: number
  readonly workers: number
}

function planLane(cards: readonly Card[], { random, from, until, workers }: Lane): PlannedFault[] {
  if (cards.length === 0) return []
  const planned: PlannedFault[] = []
  // With many faults in a short run each is as short as it may be, so that all of them find room.
  const fits = shareThatFits(cards, until - from)
  let at = from + random.between(0, GAP_MS[1])
  for (let round = 0; ; round += 1) {
    for (const card of shuffled(cards, random)) {
      const [least, most] = card.lastsMs
      const lastsMs = Math.round(random.between(least, least + (most - least) * fits))
      const worker = card.stageFault === null ? random.whole(1, workers) : null
      const seed = random.whole(0, 0xffff_ffff)
      if (round > 0 && at + lastsMs > until) return planned
      planned.push({
        atMs: Math.round(at),
        lastsMs,
        name: card.name,
        worker,
        stageFault: card.stageFault,
        seed,
      })
      at += lastsMs + random.between(...GAP_MS)
    }
  }
}

function shareThatFits(cards: readonly Card[], roomMs: number): number {
  const gaps = cards.length * GAP_MS[1]
  const least = cards.reduce((sum, { lastsMs }) => sum + lastsMs[0], gaps)
  const most = cards.reduce((sum, { lastsMs }) => sum + lastsMs[1], gaps)
  return most === least ? 1 : Math.min(1, Math.max(0, (roomMs - least) / (most - least)))
}

function shuffled<T>(items: readonly T[], random: SeededRandom): T[] {
  const deck = [...items]
  for (let last = deck.length - 1; last > 0; last -= 1) {
    const other = random.whole(0, last)
    ;[deck[last], deck[other]] = [deck[other] as T, deck[last] as T]
  }
  return deck
}
