import { isDeepStrictEqual } from 'node:util'
import { expect } from 'vitest'

/** `toEqual()` for comparisons by the hundred thousand: it costs little where nothing differs, and tells what differs. */
export function expectSame(actual: unknown, expected: unknown, label?: string): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual, label).toEqual(expected)
}
