import { fenceOf, type Model } from '../operation.js'
import { type Depth, FREE, reentrantMutex } from './reentrant.js'

interface FencedDepth {
  readonly depth: Depth
  /** The fence of the hold; null if it is not known yet. */
  readonly fence: bigint | null
  readonly highest: bigint
}

/** As the reentrant one, with one fence for all acquisitions of a hold, higher than those of the holds before. */
export const reentrantFencedMutex: Model<FencedDepth> = {
  init: { depth: FREE, fence: null, highest: -1n },
  step(state, operation) {
    const depth = reentrantMutex.step(state.depth, operation)
    if (depth === undefined) return undefined
    if (operation.f !== 'acquire') {
      return { depth, fence: depth.times === 0 ? null : state.fence, highest: state.highest }
    }
    const fence = fenceOf(operation.output)
    if (fence === null) return { ...state, depth }
    if (state.fence !== null) return fence === state.fence ? { ...state, depth } : undefined
    return fence > state.highest ? { depth, fence, highest: fence } : undefined
  },
  key: ({ depth, fence, highest }) => `${reentrantMutex.key(depth)} ${fence} ${highest}`,
}
