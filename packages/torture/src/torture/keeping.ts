import { cp, mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { termsOf } from '../check/check.js'
import type { ResourceNote } from '../history/format.js'
import type { History } from '../history/reader.js'
import { writeReport } from '../report/report.js'
import type { Judged } from './judgement.js'
import type { TortureOptions, TortureOutcome } from './outcome.js'

/** Where to put what is kept of a run. */
export type KeepOptions = Pick<TortureOptions, 'history' | 'report' | 'failures'>

/** Writes what was asked for; and of a run in which something was wrong, all that is needed to find out what. */
export async function keepRecords(
  judged: Judged,
  histories: string,
  { history, report, failures }: KeepOptions,
): Promise<TortureOutcome> {
  const { outcome } = judged
  const folder = outcome.verdict.valid || failures === null ? null : resolve(failures)
  if (folder !== null) {
    await mkdir(folder, { recursive: true })
    if (history === null) await cp(histories, join(folder, 'history'), { recursive: true })
  }
  const kept = history !== null ? histories : folder !== null ? join(folder, 'history') : null
  const page = report !== null ? resolve(report) : folder !== null ? join(folder, 'report.html') : null
  if (page !== null) await draw(page, judged)
  return { ...outcome, history: kept, report: page }
}

async function draw(file: string, { outcome, history }: Judged): Promise<void> {
  await writeReport(file, {
    title: `Torture of ${outcome.store} (${outcome.recipe})`,
    command: outcome.repeat,
    store: outcome.store,
    recipe: outcome.recipe,
    seed: outcome.seed,
    seconds: outcome.seconds,
    generatedBy: 'holdfast torture',
    guarantees: outcome.guarantees,
    events: history.events,
    verdict: outcome.verdict,
    resources: resourcesOf(history),
    notes: notesOf(outcome),
  })
}

function resourcesOf({ headers, events }: History): Record<string, ResourceNote> {
  const { noteOf } = termsOf(headers)
  const names = new Set(events.map(({ k }) => k).filter((k) => k !== ''))
  return Object.fromEntries([...names].map((name) => [name, noteOf(name)]))
}

export function notesOf(outcome: Omit<TortureOutcome, 'history' | 'report'>): string[] {
  const { plainSet, register, trouble } = outcome
  const notes = [
    `${plainSet.added} additions to plain files under a lock, of which ${plainSet.unprotectedLosses} were lost by writes ` +
      'that came after their lease had ended, which only a fence can prevent.',
    ...trouble.map((each) => `A fault could not be carried out: ${each}`),
  ]
  if (outcome.guarantees.fencing !== 'none') {
    notes.push(`The fenced register accepted ${register.accepted} fences and refused ${register.refused}.`)
  }
  return notes
}
