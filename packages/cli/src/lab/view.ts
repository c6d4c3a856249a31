/** How cases of the lab and what came of them are shown. Pure: everything is escaped here, once. */

import type { CaseOutcome, ContenderOutcome, LabCase, Violation } from 'holdfast-torture'
import { escapeText } from '../format/escape.js'
import { layOutTable } from '../format/table.js'
import { displayWidth } from '../format/width.js'

/** Longer lines are hard to read, however wide the terminal is. */
const TEXT_WIDTH = 100

type Ran = Extract<CaseOutcome, { kind: 'ran' }>

export interface CaseRow {
  readonly name: string
  readonly broken: string
  readonly ours: string
  readonly verdict: string
}

const LIST_COLUMNS = [
  { heading: 'CASE' },
  { heading: 'STORE' },
  { heading: 'FOUND' },
  { heading: 'WHAT IS BROKEN', shrinks: true },
] as const

export function listLines(cases: readonly LabCase[], width?: number): string[] {
  const rows = cases.map(({ name, stores, expects, title }) => [name, stores[0], expects, title])
  return layOutTable(LIST_COLUMNS, rows, width)
}

/** What a case is about, before it is played. */
export function storyLines({ name, title, story, fault, ours }: LabCase): string[] {
  return [
    `${name}: ${title}`,
    '',
    ...wrapped(story, '  '),
    '',
    ...wrapped(`What shows it: ${fault}`, '  '),
    '',
    ...wrapped(`Ours: ${ours}`, '  '),
  ]
}

/** What came of it, with all that happened. */
export function outcomeLines(outcome: CaseOutcome): string[] {
  if (outcome.kind === 'not run') return ['', `Not run: ${escapeText(outcome.reason)}.`]
  if (outcome.kind === 'failed') {
    return ['', `FAILED: ${outcome.contender} could not be played to its end: ${escapeText(outcome.reason)}`]
  }
  return [
    ...contenderLines('The broken one', outcome.broken),
    outcome.caught ? `  CAUGHT: ${outcome.expects}` : `  NOT CAUGHT: ${outcome.expects} was expected`,
    ...contenderLines('Ours, with the same schedule', outcome.ours),
    outcome.passed ? '  PASSES' : '  FAILS',
  ]
}

function contenderLines(heading: string, { timeline, verdict }: ContenderOutcome): string[] {
  return [
    '',
    heading,
    '',
    ...timeline.map((line) => `  ${escapeText(line)}`),
    '',
    ...verdict.violations.flatMap((violation) => violationLines(violation)),
    ...verdict.undecided.flatMap((text) => wrapped(`undecided: ${text}`, '  ')),
  ]
}

function violationLines({ kind, message, admitted }: Violation): string[] {
  const reason = admitted === undefined ? '' : ` (within what is declared: ${admitted})`
  return wrapped(`${kind}: ${message}${reason}`, '  ')
}

const TABLE_COLUMNS = [
  { heading: 'CASE' },
  { heading: 'BROKEN' },
  { heading: 'OURS' },
  { heading: 'VERDICT' },
] as const

/** All cases in a table, what is wrong with those that went wrong, and a line that sums it up. */
export function tableLines(rows: readonly CaseRow[], outcomes: readonly CaseOutcome[]): string[] {
  const cells = rows.map(({ name, broken, ours, verdict }) =>
    [name, broken, ours, verdict].map((cell) => escapeText(cell)),
  )
  const notRun = outcomes.filter(({ kind }) => kind === 'not run')
  const good = outcomes.filter(
    (outcome): outcome is Ran => outcome.kind === 'ran' && outcome.caught && outcome.passed,
  )
  return [
    '',
    ...layOutTable(TABLE_COLUMNS, cells),
    ...outcomes.flatMap((outcome) => reasonLines(outcome)),
    '',
    `${good.length} of ${outcomes.length - notRun.length} cases are as they should be: the broken one is caught, and ours passes.`,
    ...(notRun.length === 0 ? [] : [`${notRun.length} not run.`]),
  ]
}

function reasonLines(outcome: CaseOutcome): string[] {
  if (outcome.kind === 'ran') return []
  return [`${outcome.name}: ${outcome.kind}, because ${escapeText(outcome.reason)}`]
}

/** Breaks a text between words. */
function wrapped(text: string, indent: string): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of escapeText(text).split(' ')) {
    if (line !== '' && displayWidth(line) + 1 + displayWidth(word) > TEXT_WIDTH - indent.length) {
      lines.push(indent + line)
      line = ''
    }
    line = line === '' ? word : `${line} ${word}`
  }
  return line === '' ? lines : [...lines, indent + line]
}
