import { InvalidInputError } from '../core/errors.js'
import type { Duration } from './types.js'

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Milliseconds of a duration. Unlike a timer's, it may be longer than 24 days. */
export function durationMs(value: Duration, what: string, minMs: number): number {
  const match = typeof value === 'string' ? /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(value) : null
  const ms = match === null ? value : Number(match[1]) * (UNIT_MS[match[2] ?? ''] ?? Number.NaN)
  if (typeof ms !== 'number' || !Number.isSafeInteger(ms) || ms < minMs) {
    throw new InvalidInputError(
      what,
      `whole milliseconds from ${minMs}, or a text such as '30s' or '24h'`,
      value,
    )
  }
  return ms
}
