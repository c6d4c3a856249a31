/** What a report draws of runs of the lab: both contenders of each case, one below the other. */

import type { Verdict, Violation } from '../check/verdict.js'
import { type HistoryEvent, isHeader, type ResourceNote } from '../history/format.js'
import type { ReportInput } from '../report/report.js'
import type { CaseOutcome, ContenderOutcome } from './case.js'

type Ran = Extract<CaseOutcome, { kind: 'ran' }>

export function labReport(
  outcomes: readonly CaseOutcome[],
  { command, generatedBy }: Pick<ReportInput, 'command' | 'generatedBy'>,
): ReportInput {
  const ran = outcomes.filter((outcome): outcome is Ran => outcome.kind === 'ran')
  const played = ran.flatMap(({ name, broken, ours }) => [renamed(name, broken), renamed(name, ours)])
  const violations = played.flatMap((each) => each.violations)
  return {
    title: `The lab: ${outcomes.map(({ name }) => name).join(', ')}`,
    command,
    generatedBy,
    store: 'real servers, one set for each contender',
    recipe: 'the broken one, then ours',
    seed: 'none',
    seconds: Math.round(played.reduce((sum, { tookMs }) => sum + tookMs, 0) / 1_000),
    events: played.flatMap(({ events }) => events).sort((a, b) => a.t - b.t),
    verdict: {
      valid: violations.every(({ admitted }) => admitted !== undefined),
      violations,
      undecided: played.flatMap(({ undecided }) => undecided),
      counts: sumOf(ran.flatMap(({ broken, ours }) => [broken.verdict, ours.verdict])),
    },
    resources: Object.assign({}, ...played.map(({ resources }) => resources)) as Record<string, ResourceNote>,
    notes: outcomes.map(noteOf),
  }
}

function noteOf(outcome: CaseOutcome): string {
  if (outcome.kind !== 'ran') return `${outcome.name}: ${outcome.kind}, because ${outcome.reason}`
  const caught = outcome.caught ? `is caught with ${outcome.expects}` : `is NOT caught (${outcome.expects})`
  return `${outcome.name}: the broken one ${caught}; ours ${outcome.passed ? 'passes' : 'FAILS'}.`
}

interface Played {
  readonly tookMs: number
  readonly events: readonly HistoryEvent[]
  readonly violations: readonly Violation[]
  readonly undecided: readonly string[]
  readonly resources: Readonly<Record<string, ResourceNote>>
}

/** Both contenders lock the same names, so each name gets in front of it whose it is. */
function renamed(name: string, { contender, history, verdict, tookMs }: ContenderOutcome): Played {
  const title = (resource: string): string => (resource === '' ? '' : `${name}, ${contender}: ${resource}`)
  const events = history.filter((line): line is HistoryEvent => !isHeader(line))
  const notes = history.filter(isHeader).flatMap(({ resources = {} }) => Object.entries(resources))
  return {
    tookMs,
    events: events.map((event) => ({ ...event, k: title(event.k) })),
    violations: verdict.violations.map((each) => ({ ...each, resource: title(each.resource) })),
    undecided: verdict.undecided,
    resources: Object.fromEntries(notes.map(([resource, note]) => [title(resource), note])),
  }
}

function sumOf(verdicts: readonly Verdict[]): Verdict['counts'] {
  const sum = { events: 0, acquired: 0, lost: 0, unknown: 0 }
  for (const { counts } of verdicts) {
    sum.events += counts.events
    sum.acquired += counts.acquired
    sum.lost += counts.lost
    sum.unknown += counts.unknown
  }
  return sum
}
