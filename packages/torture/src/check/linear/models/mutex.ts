import type { Model } from '../operation.js'

/** A lock that does not look at who releases it, as in Knossos: acquire when free, release when locked. */
export const mutex: Model<boolean> = {
  init: false,
  step(locked, { f }) {
    if (f === 'acquire') return locked ? undefined : true
    if (f === 'release' || f === 'over') return locked ? false : undefined
    return locked
  },
  key: String,
}
