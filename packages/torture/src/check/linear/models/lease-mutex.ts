import type { Model } from '../operation.js'
import { ownerMutex } from './owner-mutex.js'

/**
 * A lock whose holds run out. That they do is an operation of its own, `over`, which may take place at any time from
 * when the holder had to stop. Whoever is told that it still holds must hold.
 */
export const leaseMutex: Model<number> = {
  init: ownerMutex.init,
  step(held, operation) {
    if (operation.f === 'extend' || operation.f === 'assert') {
      return held === operation.hold && held !== -1 ? held : undefined
    }
    return ownerMutex.step(held, operation)
  },
  key: String,
}
