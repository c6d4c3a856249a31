/** One run, decided before any I/O: its key and fingerprint are fixed here, whatever the work does to its input. */

import { fingerprintOf } from './fingerprint.js'
import { checkTarget, recordKeyOf, refOfRecord } from './keys.js'
import { type RunLimits, type RunSettings, resolveRun, type Settings } from './settings.js'
import type { RunOptions, Target } from './types.js'

export interface Plan<T> {
  readonly key: string
  /** What errors and events call it. */
  readonly ref: string
  readonly operation: string
  readonly fingerprint: string | null
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
    fingerprint: fingerprintOf(target.input, run.fingerprint),
    onlyIssued: false,
    settings: run,
  }
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
