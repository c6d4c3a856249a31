/** The only file of the backend that starts a timer, reads a clock or draws a number. */

import { randomBytes } from 'node:crypto'
import { performance } from 'node:perf_hooks'

/** Never steps. */
export function monotonicMs(): number {
  return performance.now()
}

/** Short, and different for every client that is ever likely to meet another. */
export function randomName(): string {
  return randomBytes(6).toString('base64url')
}

/** The outcome of the call, or what `late` gives after `ms`. The call itself goes on; whatever comes of it is dropped. */
export function within<T>(ms: number, call: Promise<T>, late: () => T): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      try {
        resolve(late())
      } catch (error) {
        reject(error)
      }
    }, ms)
    call.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

/**
 * Runs something after a while, unless it is cancelled first. What has arrived by then is read before it runs: after a
 * pause of this process, a timer would otherwise overtake the answers that were there in time. It keeps no process
 * alive: whoever waits has a deadline of their own that does.
 */
export function afterMs(ms: number, run: () => void): () => void {
  let turn: NodeJS.Immediate | null = null
  const timer = setTimeout(() => {
    turn = setImmediate(run)
  }, Math.ceil(ms))
  timer.unref()
  return () => {
    clearTimeout(timer)
    if (turn !== null) clearImmediate(turn)
  }
}
