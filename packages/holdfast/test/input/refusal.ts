import { expect } from 'vitest'
import { HoldfastError, InvalidInputError } from '../../src/index.js'
import type { WatchedBackend } from './watched-backend.js'

/** C0 without exception, DEL and C1: none of them may reach a log through a message. */
const CONTROL = /\p{Cc}/u

const MESSAGE_LENGTH_MAX = 400

let count = 0

/** How many inputs were tried so far. */
export function casesTried(): number {
  return count
}

/** Calls with a bad input, which must be refused by an error of Holdfast before anything reaches the store. */
export async function expectRefused(backend: WatchedBackend, call: () => unknown): Promise<void> {
  count += 1
  const callsBefore = backend.allCalls
  const error = await errorOf(call)
  if (!(error instanceof HoldfastError)) {
    throw new Error(`Expected a HoldfastError, got ${error === null ? 'no error' : describeError(error)}`)
  }
  expect(['INVALID_INPUT', 'UNSUPPORTED']).toContain(error.code)
  if (error instanceof InvalidInputError) {
    expect(error.message).toMatch(/^Expected `[A-Za-z]+` to be .+, got .+\.$/)
    expect(error.message).toContain(`\`${error.option}\``)
  }
  expect(error.message.length).toBeLessThan(MESSAGE_LENGTH_MAX)
  expect(CONTROL.test(error.message), 'the message has a raw control character').toBe(false)
  expect(error.message.isWellFormed(), 'the message has a lone surrogate').toBe(true)
  expect(backend.allCalls).toBe(callsBefore)
}

/** What a call throws or rejects with; null if it does neither. An iterable is asked for its first value. */
async function errorOf(call: () => unknown): Promise<unknown> {
  try {
    const result = await call()
    if (isAsyncIterable(result)) await result[Symbol.asyncIterator]().next()
    // What should not have come into being must not stand in the way of the next case.
    if (isAsyncDisposable(result)) await result[Symbol.asyncDispose]()
    return null
  } catch (error) {
    return error
  }
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value
}

function isAsyncDisposable(value: unknown): value is AsyncDisposable {
  return typeof value === 'object' && value !== null && Symbol.asyncDispose in value
}

function describeError(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message.slice(0, 200)}` : typeof error
}
