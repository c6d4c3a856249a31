import { describe, expect, test } from 'vitest'
import type { FaultKind, ScheduleInput } from '../../src/torture/schedule.js'
import { planSchedule, WORKER_FAULTS } from '../../src/torture/schedule.js'

const STAGE_FAULTS: readonly FaultKind[] = [
  { name: 'cut', lastsMs: [100, 800] },
  { name: 'drop-requests', lastsMs: [300, 1_500] },
  { name: 'drop-replies', lastsMs: [300, 1_500] },
  { name: 'server-kill', lastsMs: [200, 2_000] },
  { name: 'server-pause', lastsMs: [500, 2_500] },
  { name: 'clock', lastsMs: [500, 2_500] },
]

const INPUT: ScheduleInput = {
  seed: 7,
  seconds: 20,
  ttlMs: 1_000,
  workers: 4,
  workerFaults: WORKER_FAULTS,
  stageFaults: STAGE_FAULTS,
}

describe('the schedule of faults', () => {
  test('follows from the seed alone', () => {
    expect(planSchedule(INPUT)).toEqual(planSchedule({ ...INPUT }))
    expect(planSchedule({ ...INPUT, seed: 8 })).not.toEqual(planSchedule(INPUT))
  })

  test.each(Array.from({ length: 40 }, (_, seed) => seed))(
    'has every fault at least once: seed %i',
    (seed) => {
      const { faults, healAtMs, endsAtMs } = planSchedule({ ...INPUT, seed })
      const names = new Set(faults.map(({ name }) => name))
      expect(names).toEqual(new Set([...WORKER_FAULTS, ...STAGE_FAULTS.map(({ name }) => name)]))
      for (const { atMs, lastsMs } of faults) expect(atMs + lastsMs).toBeLessThanOrEqual(healAtMs)
      expect(endsAtMs).toBeGreaterThan(healAtMs)
      // With room for all of them the run takes no longer than it was asked to.
      expect(endsAtMs).toBeLessThanOrEqual(INPUT.seconds * 1_000 + 1)
    },
  )

  test('has at most one fault of the workers and one of the stage at a time', () => {
    const { faults } = planSchedule({ ...INPUT, seconds: 120 })
    for (const ofStage of [true, false]) {
      const lane = faults.filter(({ stageFault }) => (stageFault !== null) === ofStage)
      expect(lane.length).toBeGreaterThan(20)
      lane.slice(1).forEach((fault, index) => {
        const before = lane[index]
        expect(fault.atMs).toBeGreaterThanOrEqual((before?.atMs ?? 0) + (before?.lastsMs ?? 0))
      })
    }
  })

  test('takes longer rather than leave out a fault', () => {
    const stageFaults = STAGE_FAULTS.map(({ name }) => ({ name, lastsMs: [4_000, 5_000] as const }))
    const { faults, endsAtMs } = planSchedule({ ...INPUT, stageFaults })
    expect(new Set(faults.map(({ name }) => name)).size).toBe(WORKER_FAULTS.length + STAGE_FAULTS.length)
    expect(endsAtMs).toBeGreaterThan(20_000)
  })

  test('is empty where no fault is wanted', () => {
    expect(planSchedule({ ...INPUT, workerFaults: [], stageFaults: [] }).faults).toEqual([])
  })
})
