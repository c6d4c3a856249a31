import { visible } from '../report/visible.js'
import type { Checked, RecipeResult } from './run.js'
import type { CheckName } from './subject.js'

/** One line for each recipe with a column for each check, and what was found below it. */
export function tableLines(
  results: readonly RecipeResult[],
  checks: readonly CheckName[],
): readonly string[] {
  const rows = [
    ['STORE', 'RECIPE', ...checks.map((check) => check.toUpperCase()), 'SECONDS'],
    ...results.map((result) => cellsOf(result, checks)),
  ]
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
  return [...lines, ...results.flatMap(findingLines)]
}

function cellsOf(result: RecipeResult, checks: readonly CheckName[]): string[] {
  const { store, recipe } = result
  if (result.kind === 'not run') {
    return [store, recipe, `not run${result.required ? ', but required' : ''}: ${result.reason}`]
  }
  return [
    store,
    recipe,
    ...checks.map((check) => cellOf(result.checks.get(check))),
    (result.tookMs / 1_000).toFixed(1),
  ]
}

function cellOf(checked: Checked | undefined): string {
  if (checked === undefined || checked.kind === 'does not apply') return '-'
  return checked.kind === 'passed' ? 'passed' : `FOUND ${checked.findings.length}`
}

/** Many findings of one kind say the same. */
const FINDINGS_MAX = 12

export function findingLines(result: RecipeResult): readonly string[] {
  if (result.kind === 'not run') return []
  return [...result.checks].flatMap(([check, checked]) => {
    if (checked.kind !== 'found') return []
    const { findings } = checked
    const more = findings.length - FINDINGS_MAX
    return [
      '',
      `${result.store} (${result.recipe}), ${check}:`,
      ...findings.slice(0, FINDINGS_MAX).map(({ what, message }) => `  ${visible(`${what}: ${message}`)}`),
      ...(more > 0 ? [`  and ${more} more`] : []),
    ]
  })
}
