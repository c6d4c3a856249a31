/** What a stage needs on this machine. */

import { clockPrograms, missingPrograms, missingReason } from 'holdfast-servers'

/** Says in words which programs are missing; null if all are there. */
export function missingOf(programs: readonly string[]): string | null {
  const missing = missingPrograms(programs)
  return missing.length === 0 ? null : missingReason(missing)
}

/** Whether servers can have a wall clock of their own. Without a compiler they have that of the machine, and no clock fault. */
export function hasClocks(): boolean {
  return missingPrograms(clockPrograms).length === 0
}
