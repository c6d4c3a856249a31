/** Plays a case: the broken recipe first, then ours, each on fresh servers, and judges what was seen. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Controls, ProgramMissingError, requiredStores, stores } from 'holdfast-servers'
import { type CaseOutcome, CONTENDERS, type Contender, type ContenderOutcome, type LabCase } from './case.js'
import { judge } from './judge.js'
import { orAborted, Scene, StoreNotHere } from './scene.js'
import { timelineOf } from './timeline.js'

/** Nothing that works takes this long, on a busy machine either. */
const SCHEDULE_LIMIT_MS = 120_000

/** Plays both contenders. Rejects only when the signal aborts. */
export async function runCase(labCase: LabCase, signal: AbortSignal): Promise<CaseOutcome> {
  const { name, expects } = labCase
  const outcomes: ContenderOutcome[] = []
  for (const contender of CONTENDERS) {
    try {
      outcomes.push(await runContender(labCase, contender, signal))
    } catch (error) {
      signal.throwIfAborted()
      const missing = reasonIfMissing(labCase, error)
      if (missing !== null) return { kind: 'not run', name, reason: missing }
      return {
        kind: 'failed',
        name,
        contender,
        reason: error instanceof Error ? error.message : String(error),
      }
    }
  }
  const [broken, ours] = outcomes as [ContenderOutcome, ContenderOutcome]
  return {
    kind: 'ran',
    name,
    expects,
    broken,
    ours,
    caught: broken.verdict.violations.some(
      ({ kind, admitted }) => kind === expects && admitted === undefined,
    ),
    passed: ours.verdict.valid && ours.verdict.undecided.length === 0,
  }
}

/** Plays the schedule with one contender, and puts everything away again, whatever comes. */
export async function runContender(
  labCase: LabCase,
  contender: Contender,
  signal: AbortSignal,
): Promise<ContenderOutcome> {
  signal.throwIfAborted()
  const began = performance.now()
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-lab-'))
  const limit = new AbortController()
  const timer = setTimeout(
    () => limit.abort(new Error(`The schedule was not over after ${SCHEDULE_LIMIT_MS / 1_000} s.`)),
    SCHEDULE_LIMIT_MS,
  )
  const scene = new Scene(labCase, contender, folder, AbortSignal.any([signal, limit.signal]))
  try {
    await orAborted(play(labCase, scene), scene.signal)
    await scene.dispose()
    const history = await scene.history()
    return {
      contender,
      verdict: judge(labCase, contender, history, scene.facts),
      timeline: timelineOf(history, scene.remarks),
      history,
      tookMs: performance.now() - began,
    }
  } finally {
    clearTimeout(timer)
    limit.abort()
    await scene.dispose()
    await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  }
}

async function play(labCase: LabCase, scene: Scene): Promise<void> {
  const [store] = labCase.stores
  if (labCase.setUp !== undefined) await labCase.setUp(scene)
  else if (store === 'memory' || store === 'sqlite') await scene.startPlain(store)
  else await scene.start(store as keyof Controls)
  await labCase.schedule(scene)
}

/**
 * Why the case cannot be run here; null if the error is about something else, or the store must be there, in which case
 * that it is not is a failure.
 */
function reasonIfMissing(labCase: LabCase, error: unknown): string | null {
  if (!(error instanceof StoreNotHere) && !(error instanceof ProgramMissingError)) return null
  const required = requiredStores(process.env['HOLDFAST_REQUIRE_STORES'], [...stores.keys()])
  return labCase.stores.some((store) => required.has(store)) ? null : error.message
}
