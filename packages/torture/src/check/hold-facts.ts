import type { EventValue, Micros } from '../history/format.js'
import type { Hold, HoldEnd } from './calls.js'

/** A hold is over when this happens, or when its time had run out before. */
export function endHold(hold: Hold, at: Micros, how: HoldEnd): void {
  const expires = hold.until !== null && hold.until < at
  hold.to = expires && hold.until !== null ? hold.until : at
  hold.ended = expires ? 'expired' : how
}

export function learnUntil(hold: Hold, value: EventValue | undefined): void {
  if (value?.until !== undefined) hold.until = value.until
}

export function fenceOf(value: EventValue | undefined): bigint | null {
  return value?.fence !== undefined && /^\d{1,40}$/.test(value.fence) ? BigInt(value.fence) : null
}

/** A release was carried out. One with a shortest time to hold stays taken after that for an unknown time. */
export function freeHold(hold: Hold, at: Micros): void {
  if (hold.minHoldMs === 0) hold.freed ??= at
}
