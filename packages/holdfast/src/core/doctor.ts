/** What an examination of a store finds, for whoever runs it. Types only: each store brings its own examiner. */

/**
 * `ok`: as it should be. `note`: worth knowing. `warning`: a fault that is to be expected one day would break locks.
 * `danger`: locks are not safe, or do not work, as it is.
 */
export type FindingLevel = 'ok' | 'note' | 'warning' | 'danger'

export interface Finding {
  readonly level: FindingLevel
  /** What was looked at, in a word or two; the same word for the same thing every time. */
  readonly check: string
  /** What was found. Never a credential. */
  readonly found: string
  /** What to do about it; null where nothing needs to be done. */
  readonly advice: string | null
}
