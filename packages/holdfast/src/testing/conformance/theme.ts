import type { Guarantees } from '../../core/backend.js'
import type { Bench } from './bench.js'

/** What decides which cases apply, known before the first one runs. */
export interface Conditions {
  readonly guarantees: Guarantees
  /** Why no process can be crashed over this store; null where one can. */
  readonly noCrash: string | null
}

export interface Unmet {
  readonly by: 'guarantee' | 'hook'
  readonly reason: string
}

/** Says why a case cannot apply to a store; null if it does. */
export type Need = (conditions: Conditions) => Unmet | null

/** Which promise a theme or a case checks. A report can count the cases of each. */
export type SafetyTag = 'exclusion' | 'fencing' | 'limits' | 'effects' | 'secrets'

export interface Case {
  readonly title: string
  readonly needs?: readonly Need[]
  /** It blocks the event loop, measures a short time or opens very many connections, so no other case runs beside it. */
  readonly alone?: true
  run(bench: Bench): Promise<void>
}

export interface Theme {
  readonly name: string
  readonly tags?: readonly SafetyTag[]
  readonly needs?: readonly Need[]
  readonly cases: readonly Case[]
}

export const needsWeights: Need = ({ guarantees }) =>
  guarantees.weights === 'any'
    ? null
    : declared(`weights: '${guarantees.weights}'`, 'a claim takes one permit, or all there is')

export const needsSemaphores: Need = ({ guarantees }) =>
  guarantees.weights === 'none' ? declared("weights: 'none'", 'exclusive locks only') : null

export const needsFences: Need = ({ guarantees }) =>
  guarantees.fencing === 'none' ? declared("fencing: 'none'", 'no fences are minted') : null

export const needsFairness: Need = ({ guarantees }) =>
  guarantees.fair ? null : declared('fair: false', 'the order of waiting is not kept')

/** For cases that look at what others claim, and by which names. */
export const needsClaims: Need = ({ guarantees }) =>
  guarantees.shows === 'claims'
    ? null
    : declared(`shows: '${guarantees.shows}'`, 'names, notes and owners are not kept')

/** For cases that see a lease end while its client still stands. */
export const needsLease: Need = ({ guarantees }) =>
  guarantees.keptBy === 'lease'
    ? null
    : declared(`keptBy: '${guarantees.keptBy}'`, 'a hold does not end by a lease of its own')

export const needsCrash: Need = ({ noCrash }) =>
  noCrash === null ? null : { by: 'hook', reason: `no process can be crashed: ${noCrash}` }

function declared(guarantee: string, meaning: string): Unmet {
  return { by: 'guarantee', reason: `the store declares \`${guarantee}\`: ${meaning}` }
}
