import type { Activity, Stats } from './contract.js'
import { duration, plural } from './words.js'

/** One second of what happened. null: nothing was heard of it. */
export interface Second {
  readonly acquired: number
  readonly handOvers: number
  readonly lost: number
  readonly broken: number
  readonly waitSumMs: number
  readonly waitMaxMs: number
  readonly waiters: number
  readonly holders: number
}

export const SECONDS = 300

/** Less than this is the way to the store and back; whoever waited for longer waited for somebody. */
const WAITED_MS = 50

const SPREAD_MAX = 10

/** The last five minutes, one report for each second. */
export class Series {
  #slots: (Second | null)[] = []
  #waits: number[] = []
  #lastAt = Number.NaN

  /** The service counts all acquisitions; how many of them were hand-overs is seen from each one's wait. */
  heard(activity: Activity): void {
    const { kind, waitedMs } = activity
    if (kind === 'acquired' && waitedMs !== null && waitedMs >= WAITED_MS) this.#waits.push(waitedMs)
  }

  add(stats: Stats, now: number): void {
    // Reports come a little early or late. One that comes seconds late tells of all of them; but of a long silence, as
    // when the connection was lost, nobody knows.
    const elapsed = Math.max(1, Math.round((now - this.#lastAt) / 1000) || 1)
    const covered = elapsed > SPREAD_MAX ? 1 : elapsed
    this.#lastAt = now
    for (let gap = covered; gap < Math.min(SECONDS, elapsed); gap++) this.#slots.push(null)
    const second = secondOf(stats, this.#waits, covered)
    this.#waits = []
    for (let n = 0; n < covered; n++) this.#slots.push(second)
    this.#slots.splice(0, this.#slots.length - SECONDS)
  }

  /** The seconds, oldest first; always as many, with nothing where nothing was heard. */
  all(): readonly (Second | null)[] {
    const missing = SECONDS - this.#slots.length
    return [...Array.from({ length: missing }, () => null), ...this.#slots]
  }
}

function secondOf(stats: Stats, waits: readonly number[], covered: number): Second {
  return {
    acquired: stats.acquired / covered,
    handOvers: waits.length / covered,
    lost: stats.lost / covered,
    broken: stats.broken / covered,
    waitSumMs: waits.reduce((sum, ms) => sum + ms, 0) / covered,
    waitMaxMs: Math.max(0, ...waits),
    waiters: stats.waiters,
    holders: stats.holders,
  }
}

/** A round number that is at least `value`, so that the axis reads well. */
export function roundUp(value: number): number {
  if (value <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  const factor = [1, 2, 3, 5, 10].find((one) => one * power >= value) ?? 10
  return factor * power
}

/** Runs of numbers without gaps, each with the place of its first. */
export function runs(values: readonly (number | null)[]): { start: number; values: number[] }[] {
  const found: { start: number; values: number[] }[] = []
  let open: { start: number; values: number[] } | null = null
  values.forEach((value, index) => {
    if (value === null) {
      open = null
    } else if (open === null) {
      open = { start: index, values: [value] }
      found.push(open)
    } else {
      open.values.push(value)
    }
  })
  return found
}

/** The charts in words, for those who do not see them, and for those who do. */
export function summary(seconds: readonly (Second | null)[]): string {
  const heard = seconds.filter((second) => second !== null)
  if (heard.length === 0) return 'Nothing has been heard yet.'
  const sum = (pick: (second: Second) => number): number =>
    Math.round(heard.reduce((all, one) => all + pick(one), 0))
  const handOvers = sum((one) => one.handOvers)
  const waitMs = sum((one) => one.waitSumMs) / Math.max(1, handOvers)
  const counts = [
    plural(
      sum((one) => one.acquired),
      'acquisition',
    ),
    plural(handOvers, 'hand-over'),
    plural(
      sum((one) => one.lost),
      'loss',
      'losses',
    ),
    plural(
      sum((one) => one.broken),
      'break',
    ),
  ]
  const waited = `those who waited did so for ${duration(waitMs)} on average`
  return `In the last ${duration(heard.length * 1000)}: ${counts.join(', ')}; ${handOvers === 0 ? 'nobody had to wait' : waited}.`
}
