import { exitCodeOfSignal } from './exit-codes.js'

/** A signal asked the command to stop before its work was done. */
export class Interrupted extends Error {
  readonly signal: NodeJS.Signals

  constructor(signal: NodeJS.Signals) {
    super(`interrupted by ${signal}`)
    this.name = 'Interrupted'
    this.signal = signal
  }
}

/** Whoever read the output has gone, so there is nobody to work for. */
export class OutputClosed extends Error {
  constructor() {
    super('the reader of the output went away')
    this.name = 'OutputClosed'
  }
}

/** The output cannot be written, for example because the disk is full. */
export class OutputFailed extends Error {
  constructor(cause: NodeJS.ErrnoException) {
    super(`standard output cannot be written (${cause.code ?? cause.message})`, { cause })
    this.name = 'OutputFailed'
  }
}

/** The other end of the pipe is closed, or the terminal is gone. */
const CLOSED: ReadonlySet<string | undefined> = new Set(['EPIPE', 'EIO'])

const STOPPING: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']

/** Makes one abort signal of those that mean "stop", so that a wait ends and the line is left in order. */
export class Interruption {
  readonly #controller = new AbortController()
  readonly #onSignal = (signal: NodeJS.Signals): void => {
    // Asked twice means now: leaving in order takes too long for whoever asks.
    if (this.#controller.signal.aborted) process.exit(exitCodeOfSignal(signal))
    this.#controller.abort(new Interrupted(signal))
  }

  constructor() {
    for (const signal of STOPPING) process.on(signal, this.#onSignal)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Ends the work in order, because its output goes nowhere. Returns the reason. */
  outputBroke(error: NodeJS.ErrnoException): OutputClosed | OutputFailed {
    const reason = CLOSED.has(error.code) ? new OutputClosed() : new OutputFailed(error)
    this.#controller.abort(reason)
    return reason
  }

  /** From here on somebody else decides what signals mean. */
  handOver(): void {
    for (const signal of STOPPING) process.off(signal, this.#onSignal)
  }
}

/** Rejects with the reason as soon as the signal aborts, whatever becomes of the promise. */
export async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  let onAbort: (() => void) | undefined
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(signal.reason as Error)
    signal.addEventListener('abort', onAbort, { once: true })
  })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    if (onAbort !== undefined) signal.removeEventListener('abort', onAbort)
  }
}

/** Waits; on abort it resolves early, and the caller looks at the signal. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done, { once: true })
  })
}
