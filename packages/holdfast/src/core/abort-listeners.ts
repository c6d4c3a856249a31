import type { Timers } from './runtime.js'

interface Listening {
  readonly waiting: Set<() => void>
  readonly listener: () => void
}

/** What waits for each signal. An entry exists only while something waits. */
const bySignal = new WeakMap<AbortSignal, Listening>()

/**
 * Calls `run` when the signal aborts, at once if it has aborted. Gives a function that ends this. However many callers wait
 * with one signal, it has one listener of this library, because Node warns of a leak from eleven listeners on.
 */
export function onAbort(signal: AbortSignal, run: () => void): () => void {
  if (signal.aborted) {
    run()
    return () => {}
  }
  const { waiting, listener } = bySignal.get(signal) ?? listenTo(signal)
  // A function of its own for each call, because two callers may give the same one.
  const entry = (): void => run()
  waiting.add(entry)
  return () => {
    if (!waiting.delete(entry) || waiting.size > 0 || bySignal.get(signal)?.waiting !== waiting) return
    bySignal.delete(signal)
    signal.removeEventListener('abort', listener)
  }
}

function listenTo(signal: AbortSignal): Listening {
  const waiting = new Set<() => void>()
  const listener = (): void => {
    bySignal.delete(signal)
    for (const run of waiting) run()
  }
  const listening = { waiting, listener }
  bySignal.set(signal, listening)
  signal.addEventListener('abort', listener, { once: true })
  return listening
}

/** The outcome of the call, or the reason of the signal as soon as it aborts. The call itself goes on. */
export function unlessAborted<T>(signal: AbortSignal | null, call: Promise<T>): Promise<T> {
  if (signal === null) return call
  return new Promise((resolve, reject) => {
    const stop = onAbort(signal, () => reject(signal.reason as Error))
    call.then(resolve, reject).finally(stop)
  })
}

/** Waits, and keeps the process running meanwhile. Rejects with the reason of the signal as soon as it aborts. */
export function pause(timers: Timers, ms: number, signal: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    const over = (): void => {
      unlisten?.()
      resolve()
    }
    const timer = timers.start(ms, over, true)
    const aborted = (): void => {
      timer.cancel()
      reject(signal?.reason as Error)
    }
    const unlisten = signal === null ? null : onAbort(signal, aborted)
  })
}
