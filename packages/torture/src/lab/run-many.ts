import type { CaseOutcome, LabCase } from './case.js'
import { runCase } from './run.js'

export interface RunManyOptions {
  readonly signal: AbortSignal
  /** How many are played at the same time. They wait for leases far more than they compute. */
  readonly sideBySide: number
  /** Called as soon as a case is over. */
  readonly onOutcome?: (outcome: CaseOutcome) => void
}

/** Plays cases, a few at a time, and gives what came of them in the order in which they were named. */
export async function runCases(
  cases: readonly LabCase[],
  { signal, sideBySide, onOutcome }: RunManyOptions,
): Promise<readonly CaseOutcome[]> {
  const outcomes = new Map<LabCase, CaseOutcome>()
  const left = [...cases]
  const playOneAfterTheOther = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const outcome = await runCase(next, signal)
      outcomes.set(next, outcome)
      onOutcome?.(outcome)
    }
  }
  // All are waited for, also when one rejects, so that nothing is left running behind whoever asked.
  const players = await Promise.allSettled(Array.from({ length: sideBySide }, playOneAfterTheOther))
  for (const player of players) if (player.status === 'rejected') throw player.reason
  return cases.flatMap((each) => outcomes.get(each) ?? [])
}
