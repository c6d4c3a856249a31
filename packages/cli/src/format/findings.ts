/** How findings about a store are shown. Pure: everything from outside is escaped here, once. */

import type { Finding, FindingLevel } from 'holdfast'
import { escapeText, redactCredentials } from './escape.js'
import { layOutTable } from './table.js'
import { count } from './views.js'

/** The words carry the meaning, so that nothing is lost without colours. */
const WORDS: Record<FindingLevel, string> = { ok: 'ok', note: 'note', warning: 'WARNING', danger: 'DANGER' }

const COLUMNS = [{ heading: 'LEVEL' }, { heading: 'CHECK' }, { heading: 'FOUND' }] as const

/**
 * A line for each finding, and what to do about it below it; in the end a line that sums it up. Nothing is cut to the
 * width of the terminal: half an advice is none.
 */
export function findingLines(findings: readonly Finding[]): string[] {
  const rows = findings.map(({ level, check, found }) => [WORDS[level], text(check), text(found)])
  const [headings = '', ...lines] = layOutTable(COLUMNS, rows)
  const indent = ' '.repeat(headings.indexOf('FOUND'))
  const shown = findings.flatMap(({ advice }, index) => {
    const line = lines[index] ?? ''
    return advice === null ? [line] : [line, `${indent}> ${text(advice)}`]
  })
  return [headings, ...shown, '', summary(findings)]
}

function text(value: string): string {
  return escapeText(redactCredentials(value))
}

function summary(findings: readonly Finding[]): string {
  const numberOf = (level: FindingLevel): number => findings.filter((each) => each.level === level).length
  const [dangers, warnings, notes] = [numberOf('danger'), numberOf('warning'), numberOf('note')]
  if (dangers + warnings + notes === 0) return 'Nothing is wrong that can be seen from here.'
  return `${count(dangers, 'danger')}, ${count(warnings, 'warning')}, ${count(notes, 'note')}.`
}
