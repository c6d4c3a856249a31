import { checkHistory } from '../check/check.js'
import type { Verdict } from '../check/verdict.js'
import type { HistoryLine } from '../history/format.js'
import type { Contender, LabCase, SceneFacts } from './case.js'

/** What the checkers of histories find, and what the case itself finds in what was counted. */
export function judge(
  labCase: LabCase,
  contender: Contender,
  history: readonly HistoryLine[],
  facts: SceneFacts,
): Verdict {
  const verdict = checkHistory(history)
  const own = labCase.judge?.(history, facts) ?? []
  const admits = contender === 'ours' ? (labCase.admits ?? {}) : {}
  const violations = [...verdict.violations, ...own].map((violation) => {
    const admitted = admits[violation.kind]
    return admitted === undefined ? violation : { ...violation, admitted }
  })
  return { ...verdict, valid: violations.every(({ admitted }) => admitted !== undefined), violations }
}
