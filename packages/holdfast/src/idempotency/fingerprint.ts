import { hash } from 'node:crypto'
import { InvalidInputError } from '../core/errors.js'
import { canonicalJson } from './canonical.js'
import type { RunOptions } from './types.js'

/** Digests of another version are not compared, so that a change of the rule refuses nobody. */
const VERSION = 'v1:'

export type FingerprintRule = NonNullable<RunOptions['fingerprint']>

/** What stands for an input in the record: nobody can tell the input from it. null: nothing is compared. */
export function fingerprintOf(input: unknown, rule: FingerprintRule): string | null {
  // A rule is for inputs: whoever looks a record up by its key has none, and a function could make nothing of it.
  if (rule === false || input === undefined) return null
  const said = rule === 'json' ? canonicalJson(input) : rule(input)
  if (typeof said !== 'string' && !(said instanceof Uint8Array)) {
    throw new InvalidInputError('fingerprint', 'a function that gives a text or bytes', typeof said)
  }
  return VERSION + hash('sha256', said, 'hex')
}
