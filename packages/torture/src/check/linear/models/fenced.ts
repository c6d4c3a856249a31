import { fenceOf, type Model } from '../operation.js'

interface Fenced {
  readonly hold: number
  readonly last: bigint
}

/** A lock that gives every hold a higher fence than the ones before. A fence that is not known may be any. */
export const fencedMutex: Model<Fenced> = {
  init: { hold: -1, last: -1n },
  step(state, { f, hold, output }) {
    if (f === 'acquire') {
      const fence = fenceOf(output)
      if (state.hold !== -1 || (fence !== null && fence <= state.last)) return undefined
      return { hold, last: fence ?? state.last }
    }
    if (f !== 'release' && f !== 'over') return state
    return state.hold === hold && hold !== -1 ? { hold: -1, last: state.last } : undefined
  },
  key: ({ hold, last }) => `${hold} ${last}`,
}
