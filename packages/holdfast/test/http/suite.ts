/** The requirements of HTTP, by their numbers, for any adapter over any store. */

import type { HttpBench } from './bench.js'
import { answering } from './cases/answering.js'
import { guarding } from './cases/guarding.js'
import { leaving } from './cases/leaving.js'
import { streaming } from './cases/streaming.js'

export interface HttpCase {
  /** Begins with the number that the test has in the list of requirements. */
  readonly title: string
  /** It waits for a time to pass. All of these run at the same time, and use paths of their own. */
  readonly waits?: true
  run(bench: HttpBench): Promise<void>
}

export const httpCases: readonly HttpCase[] = [...answering, ...streaming, ...leaving, ...guarding]
