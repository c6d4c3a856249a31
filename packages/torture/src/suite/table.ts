import type { Violation } from '../check/verdict.js'
import { visible } from '../report/visible.js'
import { isGood, type SuiteResult } from './runs.js'

const HEADINGS = ['STORE', 'RECIPE', 'ACQUIRED', 'LOST', 'FAULTS', 'VIOLATIONS', 'ADMITTED', 'VERDICT']

/** One line for each run, and below it what went wrong, with how to repeat it. */
export function tableLines(results: readonly SuiteResult[]): string[] {
  const rows = [HEADINGS, ...results.map(cellsOf)]
  const widths = HEADINGS.map((_, column) => Math.max(...rows.map((cells) => cells[column]?.length ?? 0)))
  const lines = rows.map((cells) =>
    cells
      .map((cell, column) =>
        column >= 2 && column <= 6 ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd(),
  )
  return [
    ...lines,
    ...results.filter((result) => !isGood(result)).flatMap((result) => ['', ...failureLines(result)]),
  ]
}

function cellsOf(result: SuiteResult): string[] {
  const { store, recipe } = result
  if (result.kind !== 'ran') return [store, recipe, '-', '-', '-', '-', '-', verdictOf(result)]
  const { names, faults, verdict } = result.outcome
  const admitted = verdict.violations.filter((each) => each.admitted !== undefined).length
  const numbers = [
    names.reduce((sum, { acquired }) => sum + acquired, 0),
    names.reduce((sum, { lost }) => sum + lost, 0),
    faults.reduce((sum, { count }) => sum + count, 0),
    verdict.violations.length - admitted,
    admitted,
  ]
  return [store, recipe, ...numbers.map(String), verdictOf(result)]
}

function verdictOf(result: SuiteResult): string {
  if (result.kind === 'ran') {
    return result.outcome.verdict.valid ? 'ok' : 'FAILED'
  }
  return result.kind === 'broke'
    ? `BROKE: ${visible(result.reason)}`
    : `not run${result.required ? ', but required' : ''}: ${result.reason}`
}

/** In a failure, the counts of every kind, the first of each, and where the rest is. */
export function failureLines(result: SuiteResult): string[] {
  const title = `${result.store} (${result.recipe}): ${verdictOf(result)}`
  if (result.kind === 'not run') return [title]
  if (result.kind === 'broke') return [title, `  repeat: ${result.repeat}`]
  const { verdict, report, history, repeat } = result.outcome
  const bad = verdict.violations.filter(({ admitted }) => admitted === undefined)
  const kinds = [...new Set(bad.map(({ kind }) => kind))]
  return [
    title,
    ...kinds.map((kind) => firstOf(bad.filter((each) => each.kind === kind))),
    `  report:  ${report}`,
    `  history: ${history}`,
    `  repeat:  ${repeat}`,
  ]
}

function firstOf(violations: readonly Violation[]): string {
  const [first] = violations
  return `  ${first?.kind} (${violations.length}): ${visible(`${first?.resource}: ${first?.message}`)}`
}
