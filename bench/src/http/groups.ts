/** What idempotency costs in a server. */

import type { Group } from '../group.js'
import { httpOverhead } from './overhead.js'

export const httpGroups: readonly Group[] = [
  {
    name: 'http-overhead',
    about: 'time added per request, first run and replay, in each framework, against the bare handler',
    run: (bench) => httpOverhead(bench, 'memory', 'memory:bench-http'),
  },
]
