import { AssertionError } from 'node:assert/strict'
import { performance } from 'node:perf_hooks'
import { inspect } from 'node:util'

/** How long anything that must happen may take. Generous, because a busy machine is not a broken store. */
export const PATIENCE_MS = 30_000

const LOOK_EVERY_MS = 10

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms)
  })
}

/** Lets everything that is ready run, without a delay. */
export function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

export interface WaitOptions {
  readonly limitMs?: number
  /** What the wait is about, for the message of its error. It is called once, after the limit. */
  readonly state?: () => unknown
}

/** Something that had to happen did not happen before the limit. */
export class LimitError extends AssertionError {}

const STATE_LENGTH_MAX = 2_000
const STATE_MS = 5_000

/** A value as the message of an error shows it. The store that is asked for it may be the one that hangs. */
export async function textOf(state: () => unknown): Promise<string> {
  const asked = Promise.resolve()
    .then(state)
    .then(
      (value) => inspect(value, { depth: 4, breakLength: Number.POSITIVE_INFINITY }),
      (error: unknown) => `unknown (${String(error)})`,
    )
  const text = await Promise.race([asked, sleep(STATE_MS).then(() => 'unknown (no answer)')])
  return text.length > STATE_LENGTH_MAX ? `${text.slice(0, STATE_LENGTH_MAX)} …` : text
}

async function limitError(what: string, limitMs: number, { state }: WaitOptions): Promise<LimitError> {
  const seen = state === undefined ? '' : ` Seen instead: ${await textOf(state)}.`
  return new LimitError({ message: `Within ${limitMs} ms: ${what}.${seen}` })
}

/** Waits for something to become true, and fails with what it was if it does not. */
export async function until(
  check: () => boolean | Promise<boolean>,
  what: string,
  options: WaitOptions = {},
): Promise<void> {
  const { limitMs = PATIENCE_MS } = options
  const endsAt = performance.now() + limitMs
  while (!(await check())) {
    if (performance.now() >= endsAt) throw await limitError(what, limitMs, options)
    await sleep(LOOK_EVERY_MS)
  }
}

/** The value of a promise, or a failure where it does not settle in time. */
export async function within<T>(promise: Promise<T>, what: string, options: WaitOptions = {}): Promise<T> {
  const { limitMs = PATIENCE_MS } = options
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, limitMs)
  }).then(async () => {
    throw await limitError(what, limitMs, options)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** What the promise rejects with. Resolving is the failure here. */
export async function rejectionOf(promise: Promise<unknown>, limitMs = PATIENCE_MS): Promise<unknown> {
  const settled = promise.then(
    () => ({ rejected: false, error: undefined as unknown }),
    (error: unknown) => ({ rejected: true, error }),
  )
  const { rejected, error } = await within(settled, 'the call rejects', { limitMs })
  if (!rejected) throw new AssertionError({ message: 'The call resolved, and had to reject.' })
  return error
}

/** The error, if it is of the class; a failure otherwise. */
export function asError<E extends Error>(type: abstract new (...args: never[]) => E, error: unknown): E {
  if (error instanceof type) return error
  throw new AssertionError({ message: `Expected ${type.name}, got ${String(error)}.` })
}

/** A promise that is looked at later. If the case fails before that, its rejection must not end the process. */
export function later<T>(promise: Promise<T>): Promise<T> {
  const noted = (): void => undefined
  promise.then(noted, noted)
  return promise
}

/** Whether a promise is still unsettled after a pause. */
export async function staysPending(promise: Promise<unknown>, ms = 50): Promise<boolean> {
  let settled = false
  const note = (): void => {
    settled = true
  }
  promise.then(note, note)
  await sleep(ms)
  return !settled
}

/** Watches the event loop, because after a stall no order of timers can be asked for. */
export class StallWatch {
  readonly #timer: NodeJS.Timeout
  #last = performance.now()
  #longestMs = 0

  constructor() {
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS)
    this.#timer.unref()
  }

  /** Ends the watch, and gives the longest time for which nothing could run. */
  stop(): number {
    this.#look()
    clearInterval(this.#timer)
    return this.#longestMs
  }

  #look(): void {
    const now = performance.now()
    this.#longestMs = Math.max(this.#longestMs, now - this.#last - LOOK_EVERY_MS)
    this.#last = now
  }
}
