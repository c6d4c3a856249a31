/** The only file of the backend that starts a timer, reads a clock or draws a number. */

import { randomBytes } from 'node:crypto'
import { performance } from 'node:perf_hooks'

/** Never steps. */
export function monotonicMs(): number {
  return performance.now()
}

/** Whatever somebody has set it to. It decides nothing: it only makes one doubt what the other says. */
export function wallMs(): number {
  return Date.now()
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

/** Runs something once everything has been read that has arrived by now, over whichever connection. */
export function afterReading(run: () => void): void {
  setImmediate(run)
}

/**
 * What has become of each call. Once one of them is answered, the others get `graceMs` more: a part of the store that
 * hangs shall not keep back what the other parts have said.
 */
export function settledSoon<T>(
  calls: readonly Promise<T>[],
  graceMs: number,
  late: () => unknown,
): Promise<PromiseSettledResult<T>[]> {
  return new Promise((resolve) => {
    const outcomes: (PromiseSettledResult<T> | undefined)[] = calls.map(() => undefined)
    let missing = calls.length
    let cancel: (() => void) | null = null
    const end = (): void => {
      cancel?.()
      resolve(outcomes.map((outcome) => outcome ?? { status: 'rejected', reason: late() }))
    }
    const note = (index: number, outcome: PromiseSettledResult<T>): void => {
      outcomes[index] = outcome
      missing -= 1
      if (missing === 0) end()
      else if (outcome.status === 'fulfilled') cancel ??= afterMs(graceMs, end)
    }
    for (const [index, call] of calls.entries()) {
      call.then(
        (value) => note(index, { status: 'fulfilled', value }),
        (reason: unknown) => note(index, { status: 'rejected', reason }),
      )
    }
    if (missing === 0) end()
  })
}

/** Well below the time that is left for a renewal when it is due, which is two thirds of its lease. */
export function renewGraceMs(leases: readonly number[]): number {
  const shortest = Math.min(...leases.filter((lease) => lease > 0), 5_000)
  return Math.max(20, shortest / 10)
}
