/** Waiting for conditions in tests. A limit ends a test that hangs; no result depends on how fast the machine is. */

import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'

export interface WaitOptions {
  /** How long to wait before the test fails. It only has to be shorter than the time limit of the test. */
  readonly limitMs?: number
  /** Describes what the test looked at. It is called once, when the limit is reached, and printed in the error. */
  readonly state?: () => unknown
}

export interface UntilOptions extends WaitOptions {
  readonly everyMs?: number
}

type Falsy = false | 0 | 0n | '' | null | undefined

const LIMIT_MS = 60_000
const EVERY_MS = 10
const LAST_LOOK_MS = 1_000
const TEXT_LENGTH_MAX = 2_000

function textOf(value: unknown): string {
  const text = inspect(value, { depth: 4 })
  return text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX)} …` : text
}

async function describe(state: () => unknown): Promise<string> {
  // The state may ask the server that hangs.
  const asked = Promise.resolve()
    .then(state)
    .then(textOf, (error: unknown) => `unknown, because asking for it failed: ${textOf(error)}`)
  const late = sleep(5_000, 'unknown, because asking for it took more than 5 s', { ref: false })
  return await Promise.race([asked, late])
}

interface Circumstances {
  readonly state: WaitOptions['state']
  readonly seen?: { readonly value: unknown } | undefined
  readonly cause?: unknown
}

async function limitError(
  what: string,
  limitMs: number,
  { state, seen, cause }: Circumstances,
): Promise<Error> {
  const parts = [`Waited ${limitMs} ms in vain: ${what}.`]
  if (seen !== undefined) parts.push(`Last value: ${textOf(seen.value)}.`)
  if (state !== undefined) parts.push(`State: ${await describe(state)}.`)
  return new Error(parts.join(' '), cause === undefined ? {} : { cause })
}

/**
 * Calls `look` until it returns a truthy value, and returns that value. An error counts as "not yet", and so does a
 * failed assertion: what must never be seen is noted by `look` and asserted afterwards. When the limit is reached, the
 * error says what the test waited for and what it saw last.
 */
export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  { limitMs = LIMIT_MS, everyMs = EVERY_MS, state }: UntilOptions = {},
): Promise<Exclude<T, Falsy>> {
  const endsAt = performance.now() + limitMs
  let seen: { readonly value: T } | undefined
  let cause: unknown
  const lookOnce = async (): Promise<T | undefined> => {
    try {
      const value = await look()
      seen = { value }
      cause = undefined
      return value
    } catch (error) {
      cause = error
      return undefined
    }
  }
  for (let isLast = false; !isLast; ) {
    // A stall of the machine may use up all the time, so the last look comes after the limit.
    const leftMs = endsAt - performance.now()
    isLast = leftMs <= 0
    // A look that never settles must not outlast the limit by much.
    const stop = new AbortController()
    const late = sleep(Math.max(leftMs, LAST_LOOK_MS), undefined, { signal: stop.signal }).catch(
      () => undefined,
    )
    const value = await Promise.race([lookOnce(), late])
    stop.abort()
    if (value) return value as Exclude<T, Falsy>
    if (!isLast) await sleep(everyMs)
  }
  throw await limitError(what, limitMs, { state, seen, cause })
}

/** The value of the promise. When the limit is reached first, the error says what the test waited for. */
export async function within<T>(
  what: string,
  promise: Promise<T>,
  { limitMs = LIMIT_MS, state }: WaitOptions = {},
): Promise<T> {
  const stop = new AbortController()
  const late = sleep(limitMs, true, { signal: stop.signal }).then(
    async () => {
      throw await limitError(what, limitMs, { state })
    },
    () => undefined as never,
  )
  try {
    return await Promise.race([promise, late])
  } finally {
    stop.abort()
  }
}

/**
 * A pause of at least `count` times 10 ms, in which a stall of the machine counts as one turn only. What needs no answer
 * from elsewhere happens well before it ends, on a slow machine too.
 */
export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await sleep(EVERY_MS)
}
