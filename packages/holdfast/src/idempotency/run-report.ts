/** Tells when a run begins and how it ends. Only made for somebody who listens. */

import type { Clock } from '../core/runtime.js'
import type { Work } from './attempt.js'
import { report } from './events.js'
import type { Plan } from './plan.js'
import { codeOf } from './record-desk.js'
import type { Outcome, RunOutcome } from './types.js'

/** The channel is one for the whole process, even where the library is loaded twice, so the numbers are, too. */
const COUNT = Symbol.for('holdfast.runs')
const shared = globalThis as { [COUNT]?: { last: number } }
shared[COUNT] ??= { last: 0 }
const count = shared[COUNT]

const OUTCOME_OF_CODE: Readonly<Record<string, RunOutcome>> = {
  IN_PROGRESS: 'in-progress',
  KEY_REUSED: 'mismatch',
  ABANDONED: 'abandoned',
  TOKEN_REFUSED: 'refused',
  LOCK_LOST: 'stale',
  RESULT_NOT_KEPT: 'replayed',
  REPLAYED_FAILURE: 'replayed',
}

/** Plays a run, and tells of it. */
export async function reportedRun<T>(
  { ref, operation, settings: { signal } }: Plan<T>,
  backend: string,
  clock: Clock,
  work: Work<T>,
  play: (work: Work<T>) => Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  count.last += 1
  const about = { operation, ref: ref.slice(ref.lastIndexOf('#') + 1), backend, run: count.last }
  const since = clock.monotonicMs()
  report({ type: 'started', ...about })
  const end = (outcome: RunOutcome, attempt?: number): void => {
    const durationMs = clock.monotonicMs() - since
    report({ type: 'ended', ...about, outcome, durationMs, ...(attempt === undefined ? {} : { attempt }) })
  }
  // An error of the work may be of the same kind as one that the run itself would end with, so it is noticed where it is thrown.
  let threw = false
  const watched: Work<T> = async (context) => {
    try {
      return await work(context)
    } catch (error) {
      threw = true
      throw error
    }
  }
  try {
    const outcome = await play(watched)
    end(outcomeOf(outcome), outcome.attempt)
    return outcome
  } catch (error) {
    if (!threw && signal?.aborted && error === signal.reason) end('aborted')
    else end(threw ? 'failed' : outcomeOfError(error))
    throw error
  }
}

/** What is no error of the library comes from what the caller has given, such as a codec. */
function outcomeOfError(error: unknown): RunOutcome {
  const code = codeOf(error)
  return code === null ? 'failed' : (OUTCOME_OF_CODE[code] ?? 'store-error')
}

/** Without a store there is no fence. */
function outcomeOf({ replayed, fence }: Outcome<unknown>): RunOutcome {
  if (replayed) return 'replayed'
  return fence === 0n ? 'unprotected' : 'completed'
}
