/** Puts together what the checkers and the oracles have to say about a run. */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkHistory, queueOf } from '../check/check.js'
import type { Verdict, Violation } from '../check/verdict.js'
import type { ResourceNote } from '../history/format.js'
import { type History, readHistory } from '../history/reader.js'
import { Recorder } from '../history/recorder.js'
import { judgePlainSets, PlainSet, readPlainAdds } from '../oracles/plain-set.js'
import { judgeRegisterLog, type RegisterEntry } from '../oracles/register.js'
import { RegisterClient } from '../oracles/register-client.js'
import type { StageFacts } from '../stage/stage.js'
import { admissionsOf } from './admissions.js'
import type { NamePlan } from './names.js'
import type { InjectedFault } from './nemesis.js'
import type { ProcessHealth, TortureOutcome } from './outcome.js'
import type { Complaint } from './protocol.js'
import { countFaults, deathsOf, summariseNames } from './summary.js'

/** All of it can be sent to a thread. */
export interface RunRecord {
  readonly stage: StageFacts
  readonly names: readonly NamePlan[]
  readonly histories: string
  readonly scene: string
  /** What was found while the run wound down. */
  readonly findings: readonly Violation[]
  readonly seed: number
  readonly seconds: number
  readonly workers: number
  readonly repeat: string
  readonly injected: readonly InjectedFault[]
  readonly trouble: readonly string[]
  readonly health: readonly ProcessHealth[]
}

export const REGISTER_LOG = 'register.log'

export function historyFiles(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.jsonl'))
    .sort()
    .map((name) => join(folder, name))
}

function linesOf<T>(folder: string, isOne: (name: string) => boolean): T[] {
  return readdirSync(folder)
    .filter(isOne)
    .flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n'))
    .flatMap((line): T[] => {
      // A killed process leaves half a line at the end of its file.
      if (!line.endsWith('}')) return []
      try {
        return [JSON.parse(line) as T]
      } catch {
        return []
      }
    })
}

/** Looks at every set and register that somebody wrote to, when nobody writes any more, and puts it into the history. */
export async function recordFinalReads(histories: string, socket: string | null): Promise<void> {
  if (socket === null) return
  const written = new Set(
    linesOf<RegisterEntry>(histories, (name) => name === REGISTER_LOG).map(({ k }) => k),
  )
  const recorder = new Recorder(join(histories, 'final.jsonl'))
  const resources: Record<string, ResourceNote> = {}
  for (const k of written) resources[k] = { kind: isSet(k) ? 'set' : 'register' }
  recorder.header({ writer: 'final', resources })
  const register = new RegisterClient(socket)
  for (const k of written) {
    recorder.event('read', 'invoke', 'final.1', k)
    const { value, elements } = await register.ask({ op: 'look', k })
    recorder.event('read', 'ok', 'final.1', k, { value: isSet(k) ? elements : value })
  }
  register.close()
  recorder.close()
}

function isSet(k: string): boolean {
  return k.startsWith('fenced-set:')
}

/** The outcome, with the history that it was drawn from, for whoever draws a picture of it. */
export interface Judged {
  readonly outcome: Omit<TortureOutcome, 'history' | 'report'>
  readonly history: History
}

export function judgeRun(run: RunRecord, tookMs: number): Judged {
  const { stage, names, histories, scene, findings, injected } = run
  const history = readHistory(historyFiles(histories))
  const verdict = checkHistory(history)
  const plain = new PlainSet(scene)
  const plainSet = judgePlainSets(
    readPlainAdds(histories),
    (set) => plain.read(set),
    deathsOf(history.events),
  )
  const log = linesOf<RegisterEntry>(histories, (name) => name === REGISTER_LOG)
  const admitted = admissionsOf(stage, history.events)
  const violations = [
    ...verdict.violations,
    ...plainSet.violations,
    ...judgeRegisterLog(log),
    ...findings,
  ].map(admitted)
  violations.push(...complaintsOf(histories).map((complaint) => violationOf(complaint, admitted)))
  const outcome = {
    store: stage.store,
    recipe: stage.recipe,
    guarantees: stage.guarantees,
    seed: run.seed,
    seconds: run.seconds,
    workers: run.workers,
    ttlMs: stage.ttlMs,
    tookMs,
    faults: countFaults(injected),
    names: summariseNames(
      history.events,
      names.map(({ name }) => name),
    ),
    verdict: withAll(verdict, violations),
    plainSet: { added: plainSet.added, unprotectedLosses: plainSet.unprotectedLosses },
    register: {
      accepted: log.filter(({ accepted }) => accepted).length,
      refused: log.filter(({ accepted }) => !accepted).length,
    },
    queue: queueOf(history),
    health: run.health,
    trouble: run.trouble,
    repeat: run.repeat,
  }
  return { outcome, history }
}

function withAll(verdict: Verdict, violations: readonly Violation[]): Verdict {
  return { ...verdict, violations, valid: violations.every(({ admitted }) => admitted !== undefined) }
}

/** What the workers complained about. */
function complaintsOf(histories: string): Complaint[] {
  return linesOf<Complaint>(histories, (name) => name.startsWith('complaints-'))
}

/**
 * Whoever is refused while it holds was overtaken by another with a higher fence, or was given a fence that is too low. It
 * cannot be told which, so it is admitted if either is.
 */
function violationOf(
  { t, p, kind, resource, message }: Complaint,
  admitted: (violation: Violation) => Violation,
): Violation {
  const violation = { resource, at: t, message, involved: [{ p, from: t, to: t }] }
  if (kind === 'unexpected-error') return { ...violation, kind }
  if (kind === 'broken-promise') return admitted({ ...violation, kind })
  const tooLow = admitted({ ...violation, kind: 'fence-order' })
  return tooLow.admitted === undefined ? admitted({ ...violation, kind: 'overlap' }) : tooLow
}
