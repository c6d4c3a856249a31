import { describe, it } from 'vitest'
import type { RunnerDescribe, RunnerGroup, RunnerIt } from '../../src/testing.js'

/** How the conformance suites use Vitest: cases run concurrently, and each theme has its tags. */
export const conformanceRunner: {
  readonly describe: RunnerDescribe
  readonly it: RunnerIt
  readonly group: RunnerGroup
} = {
  describe,
  it,
  group: ({ name, tags, alone }, body) =>
    (alone ? describe.sequential : describe.concurrent)(name, { tags: [...tags] }, body),
}
