/** Time and chance for the backends that have no need of a clock of their own kind. */

import { randomBytes, randomInt } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import { asyncContexts } from '../../core/async-context.js'

/** Short, and different for every client that is ever likely to meet another. */
export function randomName(): string {
  return randomBytes(9).toString('hex')
}

/** A whole number from 0 to one less than `limit`. */
export function randomBelow(limit: number): number {
  return randomInt(limit)
}

interface Pending {
  readonly dueAt: number
  readonly expire: () => void
}

/** All calls that are waited for, looked at now and then by one timer: most are answered at once, and a timer each is dear. */
const pending = new Set<Pending>()
const LOOK_MS = 250
let stopLooking: (() => void) | null = null

function lookForOverdue(): void {
  const now = monotonicMs()
  for (const each of pending) {
    if (each.dueAt > now) continue
    pending.delete(each)
    each.expire()
  }
  if (pending.size > 0) return
  stopLooking?.()
  stopLooking = null
}

/**
 * The outcome of the call, or what `late` gives after `ms` or a little later. The call itself goes on; whoever gives up on
 * it sees to that.
 */
export function within<T>(ms: number, call: Promise<T>, late: () => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    const each: Pending = { dueAt: monotonicMs() + ms, expire: () => reject(late()) }
    pending.add(each)
    stopLooking ??= every(LOOK_MS, lookForOverdue)
    call.then(
      (value) => {
        pending.delete(each)
        resolve(value)
      },
      (error: unknown) => {
        pending.delete(each)
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

/** Runs something again and again until it is stopped, in the async context of no caller. It keeps no process alive. */
export function every(ms: number, run: () => void): () => void {
  const timer = asyncContexts.outside(() => setInterval(run, ms))
  timer.unref()
  return () => clearInterval(timer)
}

/** For people to read, and for nothing else: it may step. */
export function wallMs(): number {
  return Date.now()
}
