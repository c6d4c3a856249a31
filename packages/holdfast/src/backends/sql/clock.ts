/** The only file of the folder that starts a timer or draws a number. */

import { randomBytes } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'

/** Short, and different for every client that is ever likely to meet another. */
export function randomName(): string {
  return randomBytes(9).toString('hex')
}

/** The outcome of the call, or what `late` gives after `ms`. The call itself goes on; whoever gives up on it sees to that. */
export function within<T>(ms: number, call: Promise<T>, late: () => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), ms)
    timer.unref()
    call.then(
      (value) => {
        clearTimeout(timer)
        resolve(value)
      },
      (error: unknown) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}

/** Between half of `ms` and all of it, so that those who collided do not collide again. */
export async function jitteredPause(ms: number, signal?: AbortSignal | null): Promise<void> {
  const jittered = Math.ceil(ms * (0.5 + Math.random() / 2))
  try {
    await pause(jittered, undefined, signal ? { signal } : {})
  } catch (error) {
    if (signal?.aborted) throw signal.reason
    throw error
  }
}

/** Never steps. */
export function monotonicMs(): number {
  return performance.now()
}

/** Runs something again and again until it is stopped. It keeps no process alive. */
export function every(ms: number, run: () => void): () => void {
  const timer = setInterval(run, ms)
  timer.unref()
  return () => clearInterval(timer)
}
