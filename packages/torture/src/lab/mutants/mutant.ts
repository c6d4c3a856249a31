import type { ViolationKind } from '../../check/verdict.js'
import type { Mutant } from '../../sim/mutants/mutant.js'
import type { Trial } from './trial.js'

/**
 * A fault that is planted in a recipe of the library, and a schedule on the real store that shows it. Each is one small
 * change of the real source; the text it replaces must occur exactly once, so that a mutant cannot rot unseen.
 */
export interface RecipeMutant extends Mutant {
  /** A store of holdfast-servers. */
  readonly store: string
  /** Which recipe, and whatever else stands behind the question mark of the URL. */
  readonly query?: string
  readonly trial: Trial
  readonly expects: ViolationKind
}
