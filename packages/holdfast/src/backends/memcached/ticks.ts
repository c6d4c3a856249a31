/**
 * Time as a memcached server counts it: in whole seconds, by a clock that it reads about once a second. All of it is
 * arithmetic on ticks; no clock of a client has a part in it.
 *
 * The number that the server counts by can lag behind the true second by just under two: it was read up to a second ago,
 * and was cut to whole seconds then. (Its timer drifts, so now and then the count leaps over a second and the lag is gone
 * at once.) So an item with n ticks to live is gone after more than n - 2 and at most n seconds and a bit. Where the
 * server's timer is late besides, by as much less; what a hold is given up early by, a tenth of a second and more, covers that.
 */

/** How far the server's count can be behind. */
const LAG_TICKS = 2
const TICK_MS = 1_000

/** From here on the server takes an expiry for a date, and one of 0 for never. Between them it is a number of ticks. */
export const RELATIVE_TICKS_MAX = 2_592_000
/** Dates are read as 32 bits. */
export const DATE_MAX = 2 ** 31 - 1

export const TTL_MIN_MS = 1_000
/** Less than the thirty days that the server could count: timers of Node.js take no more. */
export const TTL_MAX_MS = 2 ** 31 - 1

/** How many ticks something must be given so that it certainly lives for `ms`. */
export function ticksFor(ms: number): number {
  return Math.min(longTicksFor(ms), RELATIVE_TICKS_MAX)
}

/** The same for what may live longer than the server counts in ticks, so that its end must be a date. */
export function longTicksFor(ms: number): number {
  return Math.ceil(ms / TICK_MS) + LAG_TICKS
}

/** How long something with this many ticks left certainly lives on; 0 or less where that is nothing. */
export function certainMs(ticks: number): number {
  return (ticks - LAG_TICKS) * TICK_MS
}

/** When something with this many ticks left is gone at the latest, give or take a moment. */
export function latestMs(ticks: number): number {
  return ticks * TICK_MS
}

/** Whether the server's clock is one that dates can be written in. */
export function isDate(tick: number): boolean {
  return Number.isSafeInteger(tick) && tick > 2 * RELATIVE_TICKS_MAX && tick + RELATIVE_TICKS_MAX < DATE_MAX
}

/** Something that ends, by a count of ticks. */
export interface Ending {
  readonly endsAt: number
}

/** Something is there while its end is ahead: an entry ends with the very tick that an item of its length would. */
export function isAhead({ endsAt }: Ending, now: number): boolean {
  return endsAt > now
}

/** The end of what ends last, which is when the item may go. */
export function lastEnd(endings: readonly Ending[]): number {
  return endings.reduce((last, { endsAt }) => Math.max(last, endsAt), 0)
}
