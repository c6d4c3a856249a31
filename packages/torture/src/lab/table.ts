import type { CaseOutcome } from './case.js'

/** One row about a case, as cells of text. */
export interface CaseRow {
  readonly name: string
  readonly broken: string
  readonly ours: string
  readonly verdict: 'ok' | 'FAILED' | 'not run'
}

/** What came of each case, for a table at the end. */
export function rowOf(outcome: CaseOutcome): CaseRow {
  const { name } = outcome
  if (outcome.kind === 'not run') return { name, broken: '-', ours: '-', verdict: 'not run' }
  if (outcome.kind === 'failed') {
    return { name, broken: outcome.contender === 'broken' ? 'broke off' : '-', ours: '-', verdict: 'FAILED' }
  }
  return {
    name,
    broken: outcome.caught ? `caught: ${outcome.expects}` : `NOT CAUGHT: ${kindsOf(outcome.broken.verdict)}`,
    ours: outcome.passed ? 'passes' : `FAILS: ${kindsOf(outcome.ours.verdict)}`,
    verdict: outcome.caught && outcome.passed ? 'ok' : 'FAILED',
  }
}

function kindsOf({
  violations,
  undecided,
}: {
  violations: readonly { kind: string }[]
  undecided: readonly string[]
}): string {
  const kinds = [...new Set(violations.map(({ kind }) => kind))]
  if (kinds.length > 0) return kinds.join(', ')
  return undecided.length > 0 ? 'undecided' : 'nothing found'
}

/** Whether the broken one was caught with the expected kind, and ours passed. */
export function isGood(outcome: CaseOutcome): boolean {
  return outcome.kind === 'ran' && outcome.caught && outcome.passed
}
