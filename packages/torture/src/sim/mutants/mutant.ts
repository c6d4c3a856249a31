import type { StoreType } from '../stores/store.js'

/**
 * Faults that the simulator must find. Each is one small change of the real source, so that a check that has gone blind
 * is noticed; the text it replaces must occur exactly once, so that a mutant cannot rot unseen.
 */
export interface Mutant {
  readonly name: string
  /** Below `packages/`. */
  readonly file: string
  readonly find: string
  readonly replace: string
  /** The type of store on which it shows soonest. Left out: the seeds decide. */
  readonly worlds?: StoreType
  /** It shows only in a long run: something grows with every acquisition. */
  readonly soak?: true
}

export const CORE = 'holdfast/src/core'
