import type { RecordStore, RecordTraits } from '../../core/records.js'
import type { RecordBench } from './bench.js'

/** What decides which cases apply, known before the first one runs. */
export interface RecordConditions {
  readonly traits: RecordTraits
  readonly purges: boolean
}

/** Says why a case cannot apply to a store; null if it does. */
export type RecordNeed = (conditions: RecordConditions) => string | null

export interface RecordCase {
  readonly title: string
  readonly needs?: readonly RecordNeed[]
  /** It waits for a lease or a retention to end. All of these run at the same time, because each only waits. */
  readonly waits?: true
  run(bench: RecordBench): Promise<void>
}

export interface RecordTheme {
  readonly name: string
  readonly cases: readonly RecordCase[]
}

export const needsStrictFences: RecordNeed = ({ traits }) =>
  traits.fencing === 'strict' ? null : `the store declares \`fencing: '${traits.fencing}'\``

export const needsForEver: RecordNeed = ({ traits }) =>
  traits.retentionMaxMs === null || traits.keeps === 'durable'
    ? null
    : `the store declares \`retentionMaxMs: ${traits.retentionMaxMs}\``

export const needsPurge: RecordNeed = ({ purges }) =>
  purges ? null : 'the store removes what is over by itself'

export function conditionsOf(store: RecordStore): RecordConditions {
  return { traits: store.traits, purges: store.purge !== undefined }
}
