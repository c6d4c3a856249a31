import type { Model } from '../operation.js'

interface Holders {
  readonly writer: number
  readonly readers: ReadonlySet<number>
}

/** Many readers, or one writer. */
export const readWrite: Model<Holders> = {
  init: { writer: -1, readers: new Set() },
  step(state, { f, hold, input }) {
    if (f === 'acquire') {
      if (state.writer !== -1) return undefined
      if (input?.mode === 'shared') return { writer: -1, readers: new Set(state.readers).add(hold) }
      return state.readers.size === 0 ? { writer: hold, readers: state.readers } : undefined
    }
    if (f !== 'release' && f !== 'over') return state
    if (hold !== -1 && state.writer === hold) return { writer: -1, readers: state.readers }
    if (!state.readers.has(hold)) return undefined
    const readers = new Set(state.readers)
    readers.delete(hold)
    return { writer: -1, readers }
  },
  key: ({ writer, readers }) => `${writer}|${[...readers].sort((a, b) => a - b).join(' ')}`,
}
