import fc from 'fast-check'
import { describe, it } from 'vitest'
import { notOptions } from './bad-values.js'
import { expectRefused } from './refusal.js'
import type { WatchedBackend } from './watched-backend.js'

const RUNS_PER_PROBE = 60

/** A place that takes an input, and what is wrong for it. `call` gets the bad value untyped, as it comes from outside. */
export interface Probe {
  readonly what: string
  readonly bad: fc.Arbitrary<unknown>
  readonly call: (bad: never) => unknown
}

/** One probe for the object as a whole and one for each of its options. */
export function optionProbes(
  what: string,
  keys: readonly string[],
  options: ReadonlyMap<string, fc.Arbitrary<unknown>>,
  call: (options: never) => unknown,
): Probe[] {
  return [
    { what: `${what}: the object`, bad: notOptions(keys), call },
    ...[...options].map(([key, bad]) => ({
      what: `${what}: ${key}`,
      bad: bad.map((value) => ({ [key]: value })),
      call,
    })),
  ]
}

export function testProbes(heading: string, backend: WatchedBackend, probes: readonly Probe[]): void {
  describe(heading, () => {
    it.each(probes.map((probe) => [probe.what, probe] as const))('%s', async (_, { bad, call }) => {
      const property = fc.asyncProperty(bad, async (value) => {
        await expectRefused(backend, () => call(value as never))
      })
      await fc.assert(property, { numRuns: RUNS_PER_PROBE, endOnFailure: true })
    })
  })
}
