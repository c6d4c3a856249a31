import type { Model } from '../operation.js'

/** Which holds there are, each with its permits. */
type Permits = ReadonlyMap<number, number>

/** As many permits as there are, and no more. */
export function semaphore(limit: number): Model<Permits> {
  return {
    init: new Map(),
    step(held, { f, hold, input }) {
      if (f === 'acquire') {
        const weight = input?.weight ?? 1
        let sum = weight
        for (const permits of held.values()) sum += permits
        return sum > limit ? undefined : new Map(held).set(hold, weight)
      }
      if (f !== 'release' && f !== 'over') return held
      if (!held.has(hold)) return undefined
      const rest = new Map(held)
      rest.delete(hold)
      return rest
    },
    key: (held) => [...held.keys()].sort((a, b) => a - b).join(' '),
  }
}
