import assert from 'node:assert/strict'
import { performance } from 'node:perf_hooks'
import { sleep } from '../conformance/waiting.js'
import { type OwnClaim, type RecordBench, refOf } from './bench.js'
import type { RecordCase, RecordTheme } from './theme.js'

/** How often a case starts again because the machine stalled for longer than a lease. */
const TRIALS_MAX = 10

/**
 * Renews until `ms` have passed, and fails if the store says too early that the claim is lost. Resolves with false if a
 * renewal was answered so late that the lease may have ended before: then the trial shows nothing.
 */
async function keepAlive(bench: RecordBench, own: OwnClaim, ms: number): Promise<boolean> {
  const endsAt = performance.now() + ms
  let confirmedAt = own.sentAt
  while (performance.now() < endsAt) {
    const sentAt = performance.now()
    if (!(await bench.isKept(own, bench.keptMs))) {
      const elapsedMs = performance.now() - confirmedAt
      assert(elapsedMs >= bench.keptMs, `A claim that was renewed ${elapsedMs} ms before is lost.`)
      return false
    }
    confirmedAt = sentAt
    await sleep(bench.keptMs / 8)
  }
  return true
}

/** What rivals are answered while renewals keep a claim for two and a half leases; null if the machine stalled. */
async function answersWhileKept(bench: RecordBench, own: OwnClaim): Promise<readonly string[] | null> {
  const seen = new Set<string>()
  let isOver = false
  const looking = (async (): Promise<void> => {
    while (!isOver) {
      seen.add((await bench.rival(own)).kind)
      await sleep(bench.keptMs / 10)
    }
  })()
  let isKept = false
  try {
    isKept = await keepAlive(bench, own, 2.5 * bench.keptMs)
  } finally {
    isOver = true
    await looking
  }
  return isKept ? [...seen] : null
}

/** The owner may count on its lease from before it asked. Whoever comes earlier would work beside it. */
function assertNotBefore(taken: OwnClaim, sinceMs: number, leaseMs: number): void {
  // `sentAt` is from before the request that took it over; what the store did came later still, so the answer's time
  // is the one to look at.
  const elapsedMs = performance.now() - sinceMs
  assert(elapsedMs >= leaseMs, `It was taken over ${elapsedMs} ms into a lease of ${leaseMs} ms.`)
  assert(taken.sentAt >= sinceMs)
}

const takingOver: readonly RecordCase[] = [
  {
    title: 'what its owner has not finished in time is taken over: one attempt more and a higher fence',
    waits: true,
    async run(bench) {
      const own = await bench.claim({ leaseMs: bench.shortMs })
      await bench.a.save({ ...refOf(own), progress: 'so far' })
      const taken = await bench.takenOver(own)
      assertNotBefore(taken, own.sentAt, own.answer.leaseMs)
      assert(taken.fence > own.fence, 'The fence did not grow over a takeover.')
      const { attempt, tookOver, progress, createdAtMs } = taken.answer
      assert.deepEqual([attempt, tookOver, progress], [2, true, 'so far'])
      assert.equal(createdAtMs, own.answer.createdAtMs)
      const view = await bench.a.read(own.key)
      assert.deepEqual([view?.owner, view?.tookOver, view?.attempt], [taken.owner, true, 2])
    },
  },
  {
    title: 'the former owner can do nothing to what was taken over, during and after',
    waits: true,
    async run(bench) {
      const own = await bench.claim({ leaseMs: bench.shortMs })
      const taken = await bench.takenOver(own)
      const tries = async (): Promise<void> => {
        const before = await bench.b.read(own.key)
        for (const state of ['completed', 'failed', 'released'] as const) {
          assert.equal(await bench.a.finish(bench.end(own, state, 'too late')), 'stale')
        }
        assert.equal(await bench.a.save({ ...refOf(own), progress: 'too late' }), 'stale')
        assert.equal(await bench.isKept(own, bench.longMs), false)
        assert.equal(await bench.isKept(own, 0), false)
        const after = await bench.b.read(own.key)
        assert.deepEqual(after && { ...after, leaseMs: null }, before && { ...before, leaseMs: null })
      }
      await tries()
      assert.equal(await bench.b.finish(bench.end(taken, 'completed', 'in time')), 'done')
      await tries()
      const answer = await bench.a.claim(own.ask)
      assert(answer.kind === 'settled')
      assert.deepEqual([answer.result, answer.fence, answer.attempt], ['in time', taken.fence, 2])
    },
  },
  {
    title: 'of many who want to take over one does',
    waits: true,
    async run(bench) {
      const own = await bench.abandoned()
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          bench.rival(own, { leaseMs: bench.longMs }, index % 2 === 0 ? bench.a : bench.b),
        ),
      )
      assert.equal(answers.filter(({ kind }) => kind === 'claimed').length, 1)
      assert.equal(answers.filter(({ kind }) => kind === 'in-progress').length, 19)
    },
  },
  {
    title: 'whoever does not want to take over is told that it is abandoned, and it stays so',
    waits: true,
    async run(bench) {
      const own = await bench.abandoned()
      const abandoned = { kind: 'abandoned', fence: own.fence, attempt: 1 }
      assert.deepEqual(await bench.rival(own, { takeOver: false }), abandoned)
      assert.deepEqual(await bench.rival(own, { takeOver: false }, bench.a), abandoned)
      const view = await bench.b.read(own.key)
      assert.deepEqual([view?.state, view?.owner, view?.leaseMs], ['in-progress', own.owner, 0])
    },
  },
  {
    title: 'an end after the lease is done as long as nobody has taken over',
    waits: true,
    async run(bench) {
      const [done, freed] = await Promise.all([bench.abandoned(), bench.abandoned()])
      assert.equal(await bench.a.save({ ...refOf(done), progress: 'late' }), 'done')
      assert.equal(await bench.a.finish(bench.end(done, 'completed', 'late but real')), 'done')
      const answer = await bench.rival(done)
      assert(answer.kind === 'settled')
      assert.deepEqual([answer.result, answer.fence], ['late but real', done.fence])
      assert.equal(await bench.a.finish(bench.end(freed, 'released')), 'done')
      const next = await bench.rival(freed, { takeOver: false })
      assert(next.kind === 'claimed')
      assert.deepEqual([next.attempt, next.tookOver], [2, false])
    },
  },
  {
    title: 'a late end and a takeover at the same moment: one of them counts, and both know which',
    waits: true,
    async run(bench) {
      const race = async (): Promise<void> => {
        const own = await bench.abandoned()
        const [answer, ended] = await Promise.all([
          bench.rival(own, { leaseMs: bench.longMs }),
          bench.a.finish(bench.end(own, 'completed', 'late')),
        ])
        const view = await bench.b.read(own.key)
        if (answer.kind === 'claimed') {
          assert.equal(ended, 'stale')
          assert.deepEqual([view?.state, view?.fence], ['in-progress', answer.fence])
        } else {
          assert(answer.kind === 'settled', `The rival was told ${answer.kind}.`)
          assert.equal(ended, 'done')
          assert.deepEqual([view?.state, view?.result, view?.fence], ['completed', 'late', own.fence])
        }
      }
      await Promise.all(Array.from({ length: 8 }, race))
    },
  },
]

const renewing: readonly RecordCase[] = [
  {
    title: 'renewals keep a claim for several leases, also where its retention is shorter',
    waits: true,
    async run(bench) {
      for (let trial = 1; trial <= TRIALS_MAX; trial += 1) {
        const own = await bench.claim({ leaseMs: bench.keptMs, retentionMs: 500 })
        const seen = await answersWhileKept(bench, own)
        if (seen === null) continue
        assert.deepEqual(seen, ['in-progress'])
        assert.equal(await bench.a.finish(bench.end(own, 'completed', 'kept')), 'done')
        return
      }
      assert.fail(
        `In each of ${TRIALS_MAX} trials a renewal took longer than the lease of ${bench.keptMs} ms.`,
      )
    },
  },
  {
    title: 'a renewal makes the lease last at least as long as it says',
    waits: true,
    async run(bench) {
      const own = await bench.claim({ leaseMs: bench.shortMs })
      const longerMs = Math.min(2 * bench.keptMs, bench.traits.leaseMaxMs)
      const sinceMs = performance.now()
      if (!(await bench.isKept(own, longerMs))) return // A machine that stalls may come too late for it.
      const taken = await bench.takenOver(own)
      assertNotBefore(taken, sinceMs, longerMs)
    },
  },
  {
    title: 'a renewal never shortens a lease',
    waits: true,
    async run(bench) {
      const own = await bench.claim()
      assert.equal(await bench.isKept(own, bench.traits.leaseMinMs), true)
      await sleep(1.5 * bench.traits.leaseMinMs + 100)
      assert.equal((await bench.rival(own)).kind, 'in-progress')
      assert.equal(await bench.isKept(own, 0), true)
    },
  },
  {
    title: 'a lease that is over is not revived, though nobody has taken over',
    waits: true,
    async run(bench) {
      const own = await bench.abandoned()
      assert.equal(await bench.isKept(own, bench.longMs), false)
      assert.equal(await bench.isKept(own, 0), false)
      assert.equal((await bench.rival(own, { takeOver: false })).kind, 'abandoned')
    },
  },
  {
    title: 'a renewal of 0 only asks, and does not keep the claim',
    waits: true,
    async run(bench) {
      const own = await bench.claim({ leaseMs: bench.keptMs })
      const endsAt = performance.now() + bench.patienceMs
      let isKept = true
      while (isKept && performance.now() < endsAt) {
        isKept = await bench.isKept(own, 0)
        await sleep(bench.keptMs / 10)
      }
      assert.equal(isKept, false, 'Asking has kept the claim.')
      await bench.untilAbandoned(own)
    },
  },
  {
    title: 'what is ended is lost to renewals, and they do not bring it back',
    async run(bench) {
      for (const state of ['completed', 'failed', 'released'] as const) {
        const own = await bench.claim()
        await bench.a.finish(bench.end(own, state))
        assert.equal(await bench.isKept(own, bench.longMs), false, state)
        assert.equal(await bench.isKept(own, 0), false, state)
        assert.equal((await bench.b.read(own.key))?.state, state)
      }
    },
  },
  {
    title: 'renewals are answered one by one and in order',
    async run(bench) {
      const claims = await Promise.all(Array.from({ length: 40 }, () => bench.claim()))
      const isEnded = (index: number): boolean => index % 3 === 1
      const ended = claims.filter((_, index) => isEnded(index))
      await Promise.all(ended.map((own) => bench.a.finish(bench.end(own, 'completed', 'x'))))
      const answers = await bench.answersTo(claims.map((own) => bench.renewal(own, bench.longMs)))
      assert.deepEqual(
        answers.map((answer) => answer === 'lost'),
        claims.map((_, index) => isEnded(index)),
      )
      assert.deepEqual(await bench.a.renew([]), [])
    },
  },
]

export const leases: RecordTheme = { name: 'leases', cases: [...takingOver, ...renewing] }
