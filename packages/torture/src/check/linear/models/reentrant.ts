import type { Model } from '../operation.js'

export interface Depth {
  readonly hold: number
  readonly times: number
}

export const FREE: Depth = { hold: -1, times: 0 }

/** A lock that its owner can acquire again, and must release as often. */
export const reentrantMutex: Model<Depth> = {
  init: FREE,
  step(state, { f, hold }) {
    if (f === 'acquire') {
      if (state.times === 0) return { hold, times: 1 }
      return state.hold === hold ? { hold, times: state.times + 1 } : undefined
    }
    if (f === 'over') return state.hold === hold ? FREE : undefined
    if (f !== 'release') return state
    if (state.hold !== hold || state.times === 0) return undefined
    return state.times === 1 ? FREE : { hold, times: state.times - 1 }
  },
  key: ({ hold, times }) => `${hold} ${times}`,
}
