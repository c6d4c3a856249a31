import type { Checked, RecipeResult } from './run.js'
import type { CheckName } from './subject.js'

/** The result of one recipe as JSON. A recipe that was not run has none. */
export interface ReportedRecipe {
  readonly store: string
  readonly recipe: string
  readonly checks: Readonly<Partial<Record<CheckName, Checked['kind']>>>
}

export function reported(results: readonly RecipeResult[]): readonly ReportedRecipe[] {
  return results.flatMap((result) => {
    if (result.kind === 'not run') return []
    const { store, recipe } = result
    const kinds = [...result.checks].map(([check, { kind }]) => [check, kind] as const)
    return [{ store, recipe, checks: Object.fromEntries(kinds) }]
  })
}
