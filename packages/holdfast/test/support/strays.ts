import { afterAll, afterEach, beforeAll, expect } from 'vitest'

/** Fails the test in which something went wrong that nobody could catch. */
export function watchForStrays(): void {
  const strays: unknown[] = []
  const note = (error: unknown): void => void strays.push(error)
  beforeAll(() => {
    process.on('unhandledRejection', note)
    process.on('uncaughtException', note)
  })
  afterEach(() => {
    expect(strays.splice(0)).toEqual([])
  })
  afterAll(() => {
    process.off('unhandledRejection', note)
    process.off('uncaughtException', note)
  })
}
