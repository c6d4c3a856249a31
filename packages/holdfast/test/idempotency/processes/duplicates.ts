/** The same requests to several processes at once, some of which die over them. */

import { expect } from 'vitest'
import {
  type Crew,
  type Ended,
  type Failpoint,
  freshTarget,
  type Order,
  PATIENCE_MS,
  type Worker,
} from './crew.js'
import type { ProcessCase } from './suite.js'

const PROCESSES = 4
const DUPLICATES = 100
const KEYS = 20
/** How many keys are in work at a time, each with all of its duplicates. */
const KEYS_AT_ONCE = 5
const FAILPOINTS: readonly Failpoint[] = ['after-claim', 'in-the-middle', 'after-effect', 'after-completion']

const TRY_AGAIN: ReadonlySet<string | null> = new Set(['LOCK_LOST', 'OUTCOME_UNKNOWN', 'BACKEND_UNAVAILABLE'])
const PATIENT = { inFlight: { waitMs: PATIENCE_MS } }

/** Processes that are replaced when they die. */
class Shift {
  readonly #crew: Crew
  readonly #workers: Promise<Worker>[]

  constructor(crew: Crew) {
    this.#crew = crew
    this.#workers = Array.from({ length: PROCESSES }, () => crew.worker())
  }

  /** Gives the order to one of them, and to its successor if it dies, as a caller would that gets no answer. */
  async finish(place: number, order: Order): Promise<Ended> {
    for (;;) {
      const employed = this.#workers[place % PROCESSES]
      const worker = await employed
      if (worker === undefined) throw new Error('There is no such place.')
      const ended = await worker.give(order).end()
      // A machine that stalls loses leases and answers; nobody is told anything wrong, and a caller asks again.
      if (ended.kind === 'failed' && TRY_AGAIN.has(ended.code)) continue
      if (ended.kind !== 'died') return ended
      if (this.#workers[place % PROCESSES] === employed)
        this.#workers[place % PROCESSES] = this.#crew.worker()
    }
  }
}

/** All duplicates of one request; every one of them gets the same answer. */
async function duplicates(crew: Crew, shift: Shift, failpoint: Failpoint | null): Promise<void> {
  const order: Order = {
    target: freshTarget(),
    options: PATIENT,
    ...(failpoint === null ? {} : { failpoint }),
  }
  const ended = await Promise.all(
    Array.from({ length: DUPLICATES }, (_, place) => shift.finish(place, order)),
  )
  const [first] = ended
  for (const each of ended) {
    expect(each.kind).toBe('done')
    if (each.kind !== 'done' || first?.kind !== 'done') continue
    expect(each.value).toEqual(first.value)
    expect([each.fence, each.attempt]).toEqual([first.fence, first.attempt])
  }
  // Whoever got the answer first hand is at most one; none, where that process died with it.
  expect(ended.filter((each) => each.kind === 'done' && !each.replayed).length).toBeLessThanOrEqual(1)
  expect(await crew.effectsOf(order.target)).toBeGreaterThanOrEqual(1)
}

export const duplicated: readonly ProcessCase[] = [
  {
    title: `2. ${DUPLICATES} duplicates of ${KEYS} requests in ${PROCESSES} processes, of which owners are killed at every step`,
    async run({ crew }) {
      const shift = new Shift(crew)
      const keys = Array.from({ length: KEYS }, (_, index) =>
        index % KEYS_AT_ONCE === 0 ? (FAILPOINTS[index / KEYS_AT_ONCE] ?? null) : null,
      )
      for (let start = 0; start < KEYS; start += KEYS_AT_ONCE) {
        await Promise.all(
          keys.slice(start, start + KEYS_AT_ONCE).map((each) => duplicates(crew, shift, each)),
        )
      }
      // A record is completed once, whatever happened on the way there.
      const counts = [...(await crew.completions()).values()]
      expect(counts.length).toBeGreaterThan(0)
      expect(counts.filter((count) => count !== 1)).toEqual([])
    },
  },
]
