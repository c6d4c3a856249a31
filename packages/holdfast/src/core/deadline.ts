import { OutcomeUnknownError } from './errors.js'
import type { Timers } from './runtime.js'

/** What was asked, for the message. */
export interface Asked {
  readonly resource: string | null
  readonly backend: string
  /** Called when the time is over: why the store may be silent, as a sentence, where it knows. */
  readonly silence?: (() => string | null) | undefined
}

/**
 * The answer, or `OutcomeUnknownError` after `ms`. The call itself is not stopped: whoever gives up on it must
 * deal with an answer that comes later. A call that throws at once rejects like any other.
 */
export function withDeadline<T>(
  timers: Timers,
  ms: number,
  keepAlive: boolean,
  call: Promise<T>,
  { silence, ...context }: Asked,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = timers.start(
      Math.ceil(ms),
      () => {
        const why = silence?.() ?? null
        const message = `The ${context.backend} store did not answer within ${Math.ceil(ms)} ms.`
        reject(new OutcomeUnknownError(why === null ? message : `${message} ${why}`, context))
      },
      keepAlive,
    )
    call.then(
      (value) => {
        timer.cancel()
        resolve(value)
      },
      (error: unknown) => {
        timer.cancel()
        reject(error)
      },
    )
  })
}

/** A backend that throws instead of rejecting must not break the loop that called it. */
export function attempted<T>(call: () => Promise<T>): Promise<T> {
  try {
    return call()
  } catch (error) {
    return Promise.reject(error)
  }
}
