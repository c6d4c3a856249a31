/** Random numbers that a seed decides, so that a run can be repeated. */

export interface Seeded {
  /** In [0, 1). */
  next(): number
  /** A whole number from 0 to `below` - 1. */
  int(below: number): number
  pick<T>(all: readonly T[]): T
}

/** mulberry32: small, and good enough to choose statements. */
export function seeded(seed: number): Seeded {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d_2b_79_f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const int = (below: number): number => Math.floor(next() * below)
  const pick = <T>(all: readonly T[]): T => {
    const chosen = all[int(all.length)]
    if (chosen === undefined) throw new RangeError('There is nothing to choose from.')
    return chosen
  }
  return { next, int, pick }
}
