/** A verdict on a history, in lines for people. All names in it come from outside, so everything is escaped here. */

import type { ResourceOverview, Verdict, Violation } from 'holdfast-torture'
import { escapeText } from '../format/escape.js'
import { layOutTable } from '../format/table.js'
import { count } from '../format/views.js'

/** More of the same helps nobody: a lock that does not work breaks its promise at every call. */
const VIOLATIONS_MAX = 50
const RESOURCES_MAX = 100

const COLUMNS = [
  { heading: 'RESOURCE', shrinks: true },
  { heading: 'KIND' },
  { heading: 'CALLERS', align: 'right' },
  { heading: 'CALLS', align: 'right' },
  { heading: 'ACQUIRED', align: 'right' },
  { heading: 'VERDICT' },
] as const

export function checkLines(
  verdict: Verdict,
  resources: readonly ResourceOverview[],
  width: number | undefined,
): string[] {
  const { violations, undecided, counts } = verdict
  const rows = resources.slice(0, RESOURCES_MAX).map((resource) => rowOf(resource, violations))
  const untold = violations.length - VIOLATIONS_MAX
  return [
    ...layOutTable(COLUMNS, rows, width),
    ...(resources.length > RESOURCES_MAX ? [`and ${resources.length - RESOURCES_MAX} more`] : []),
    '',
    ...violations.slice(0, VIOLATIONS_MAX).flatMap(violationLines),
    ...(untold > 0 ? [`... and ${count(untold, 'violation')} more`] : []),
    ...undecided.map((text) => `Undecided. ${escapeText(text)}`),
    `${count(counts.events, 'event')}, ${counts.acquired} acquired, ${counts.lost} lost, ${counts.unknown} unknown.`,
    sentence(verdict),
  ]
}

function rowOf({ name, kind, callers, calls, acquired }: ResourceOverview, violations: readonly Violation[]) {
  const own = violations.filter(({ resource }) => resource === name)
  const broken = own.filter((violation) => violation.admitted === undefined)
  const word =
    broken.length > 0 ? [...new Set(broken.map((violation) => violation.kind))].join(', ') : 'valid'
  return [escapeText(name), kind, String(callers), String(calls), String(acquired), word]
}

function violationLines({ kind, resource, at, message, admitted }: Violation): string[] {
  const where = resource === '' ? '' : ` ${escapeText(resource)} at ${at} µs`
  return [
    `${kind}${where}`,
    `    ${escapeText(message)}`,
    ...(admitted === undefined ? [] : [`    Admitted: ${escapeText(admitted)}.`]),
  ]
}

function sentence({ valid, violations, undecided }: Verdict): string {
  if (!valid) return `INVALID: ${count(violations.length, 'violation')}.`
  return undecided.length > 0 ? 'VALID as far as it was decided.' : 'VALID.'
}
