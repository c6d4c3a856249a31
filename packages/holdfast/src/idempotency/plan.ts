/** One run, decided before any I/O: its key and fingerprint are fixed here, whatever the work does to its input. */

import { type Fingerprint, fingerprintOf } from './fingerprint.js'
import { keysFor } from './fingerprint-keys.js'
import { checkTarget, recordKeyOf, refOfRecord } from './keys.js'
import { type RunLimits, type RunSettings, resolveRun, type Settings } from './settings.js'
import type { RunOptions, Target } from './types.js'

export interface Plan<T> {
  readonly key: string
  /** What errors and events call it. */
  readonly ref: string
  readonly operation: string
  /** null: nothing is compared. */
  readonly fingerprint: Fingerprint | null
  /** Whether only a record that is there already may be run, as a token is. */
  readonly onlyIssued: boolean
  readonly settings: RunSettings<T>
}

export function planRun<T>(
  target: Target,
  options: RunOptions<T> | undefined,
  settings: Settings,
  limits: RunLimits,
): Plan<T> {
  checkTarget(target)
  const run = settingsOf(options, settings, limits)
  const key = recordKeyOf(settings.namespace, target)
  const { operation } = target.scope
  return {
    key,
    ref: refOfRecord(operation, key),
    operation,
    fingerprint: fingerprintFor(target.input, key, run),
    onlyIssued: false,
    settings: run,
  }
}

export function fingerprintFor<T>(
  input: unknown,
  recordKey: string,
  { fingerprint, fingerprintKeys, codec }: RunSettings<T>,
): Fingerprint | null {
  return fingerprintOf(input, fingerprint, recordKey, keysFor(fingerprintKeys, codec))
}

export function settingsOf<T>(
  options: RunOptions<T> | undefined,
  settings: Settings,
  limits: RunLimits,
): RunSettings<T> {
  // The client's own settings say nothing that depends on the type of a result.
  const base = settings.run as RunSettings<T>
  return options === undefined ? base : resolveRun(options, base, limits)
}
