// @ts-check
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Asks again and again until the answer is something else than undefined or false. A question that rejects counts as
 * not answered, because a server that starts refuses connections; the last cause is told if the time runs out.
 * @template T
 * @param {string} what What is awaited, for the error.
 * @param {() => Promise<T | undefined | false>} ask
 * @param {{ timeoutMs?: number | undefined, pauseMs?: number }} [options]
 * @returns {Promise<T>}
 */
export async function until(what, ask, { timeoutMs = 60_000, pauseMs = 25 } = {}) {
  const end = performance.now() + timeoutMs
  /** @type {unknown} */
  let cause
  for (;;) {
    try {
      const answer = await ask()
      if (answer !== undefined && answer !== false) return answer
      cause = undefined
    } catch (error) {
      if (error instanceof GivenUpError) throw error
      cause = error
    }
    if (performance.now() >= end) {
      throw new Error(`Waited ${timeoutMs} ms in vain until ${what}.`, { cause })
    }
    await sleep(pauseMs)
  }
}

/** There is no point in asking again. */
export class GivenUpError extends Error {
  /**
   * @param {string} message
   * @param {ErrorOptions} [options]
   */
  constructor(message, options) {
    super(message, options)
    this.name = 'GivenUpError'
  }
}
