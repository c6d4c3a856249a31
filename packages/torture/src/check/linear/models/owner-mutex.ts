import type { Model } from '../operation.js'

/** A lock that only its owner can release. The state is the number of the hold, or -1. */
export const ownerMutex: Model<number> = {
  init: -1,
  step(held, { f, hold }) {
    if (f === 'acquire') return held === -1 ? hold : undefined
    if (f === 'release' || f === 'over') return held === hold && hold !== -1 ? -1 : undefined
    return held
  },
  key: String,
}
