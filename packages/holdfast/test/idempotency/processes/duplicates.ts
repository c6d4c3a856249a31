/** The same requests to several processes at once, some of which die over them. */

import { performance } from 'node:perf_hooks'
import { expect } from 'vitest'
import { atDepth, isDeep } from '../../../../../test/support/depth.js'
import {
  type Crew,
  type Effect,
  type Ended,
  type Failpoint,
  freshTarget,
  type Order,
  PATIENCE_MS,
  type Worker,
} from './crew.js'
import type { ProcessCase } from './suite.js'

const PROCESSES = 4
const DUPLICATES = atDepth(40, 100)
/** In a deep run there are more, and each has an owner that dies; otherwise one of two has. */
const KEYS = atDepth(8, 100)
/** How many keys are in work at a time, each with all of its duplicates. */
const KEYS_AT_ONCE = atDepth(2, 5)
const FAILPOINTS: readonly Failpoint[] = ['after-claim', 'in-the-middle', 'after-effect', 'after-completion']

const TRY_AGAIN: ReadonlySet<string | null> = new Set(['LOCK_LOST', 'OUTCOME_UNKNOWN', 'BACKEND_UNAVAILABLE'])
/** Of the clocks of stores and of this machine. */
const ROUNDING_MS = 20
/** After these, attempt 1 has had no effect. */
const BEFORE_EFFECT: readonly (Failpoint | null)[] = ['after-claim', 'in-the-middle']
const PATIENT = { inFlight: { waitMs: PATIENCE_MS } }

/** Processes that are replaced when they die. */
class Shift {
  /** How often somebody had to ask again although its process lived. */
  retries = 0
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
      if (ended.kind === 'failed' && TRY_AGAIN.has(ended.code)) {
        this.retries += 1
        continue
      }
      if (ended.kind !== 'died') return ended
      if (this.#workers[place % PROCESSES] === employed)
        this.#workers[place % PROCESSES] = this.#crew.worker()
    }
  }
}

/** All duplicates of one request; every one of them gets the same answer. Gives the number of effects. */
async function duplicates(crew: Crew, shift: Shift, failpoint: Failpoint | null): Promise<number> {
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
  const effects = await crew.attemptsOf(order.target)
  expect(effects.length).toBeGreaterThanOrEqual(1)
  // Those who ask again may hide who was told what, but not an effect: each has an attempt and a fence of its own, so
  // there is none without a takeover, and none from an attempt that died before it.
  const last = first?.kind === 'done' ? first.attempt : 0
  const numbers = effects.map(({ attempt }) => attempt)
  expect(new Set(numbers).size).toBe(numbers.length)
  expect(Math.max(...numbers)).toBe(last)
  if (BEFORE_EFFECT.includes(failpoint)) expect(numbers).not.toContain(1)
  const byAttempt = effects.toSorted((one, other) => one.attempt - other.attempt)
  for (const [index, later] of byAttempt.entries()) {
    const earlier = byAttempt[index - 1]
    if (earlier === undefined) continue
    expect(later.fence > earlier.fence).toBe(true)
    expect(isTakeover(earlier, later, crew.leaseMs)).toBe(true)
  }
  return effects.length
}

/** Nobody works while another has a lease: it was over, or its owner had been told so. */
function isTakeover(earlier: Effect, later: Effect, leaseMs: number): boolean {
  if (later.begunAt - earlier.calledAt >= leaseMs - ROUNDING_MS) return true
  return earlier.abortedAt !== null && earlier.abortedAt <= later.begunAt
}

/** Where the owner of a key dies, so that each step has its turn. */
function failpointOf(index: number): Failpoint | null {
  if (isDeep) return FAILPOINTS[index % FAILPOINTS.length] ?? null
  return index % KEYS_AT_ONCE === 0 ? (FAILPOINTS[index / KEYS_AT_ONCE] ?? null) : null
}

export const duplicated: readonly ProcessCase[] = [
  {
    title: `2. ${DUPLICATES} duplicates of ${KEYS} requests in ${PROCESSES} processes, of which owners are killed at every step`,
    async run({ crew, observer }) {
      const shift = new Shift(crew)
      const keys = Array.from({ length: KEYS }, (_, index) => failpointOf(index))
      const since = performance.now()
      let effects = 0
      for (let start = 0; start < KEYS; start += KEYS_AT_ONCE) {
        const some = keys.slice(start, start + KEYS_AT_ONCE).map((each) => duplicates(crew, shift, each))
        for (const count of await Promise.all(some)) effects += count
      }
      // A record is completed once, whatever happened on the way there. One whose process died right then was not noted.
      const counts = [...(await crew.completions()).values()]
      const seconds = Math.round((performance.now() - since) / 1000)
      console.log(
        `kills: ${observer.store.name}: ${KEYS} keys, ${KEYS * DUPLICATES} orders, ${crew.deaths} processes killed, ` +
          `${effects} effects, ${counts.length} completions seen, ${shift.retries} asked again; ${seconds} s`,
      )
      // A first attempt whose claim was lost on a machine that stalls does not come to its end either.
      expect(crew.deaths).toBeGreaterThan(0)
      expect(counts.length).toBeGreaterThan(KEYS / 2)
      expect(counts.filter((count) => count !== 1)).toEqual([])
    },
  },
]
