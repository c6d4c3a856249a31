import { fenceOf, type Model } from '../operation.js'

interface Written {
  /** As JSON; `null` before the first write. */
  readonly value: string
  readonly fence: bigint
}

/** A value that is read and written. A write with a fence is taken only if no higher one was taken before it. */
export const register: Model<Written> = {
  init: { value: 'null', fence: -1n },
  step(state, { f, input, output }) {
    if (f === 'read') return JSON.stringify(output?.value ?? null) === state.value ? state : undefined
    if (f !== 'write') return state
    const fence = fenceOf(input)
    if (fence !== null && fence < state.fence) return undefined
    return { value: JSON.stringify(input?.value ?? null), fence: fence ?? state.fence }
  },
  key: ({ value, fence }) => `${fence} ${value}`,
}
