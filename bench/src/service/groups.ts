/** What the lock service costs, and how it bears a crowd. */

import type { Group } from '../group.js'
import { serviceOverhead } from './overhead.js'
import { serviceWaiters } from './waiters.js'

export const serviceGroups: readonly Group[] = [
  {
    name: 'service-requests',
    about: 'acquire and release over HTTP, against an empty route of the same framework',
    run: serviceOverhead,
  },
  {
    name: 'service-waiters',
    about: '2,000 long polls on 200 names: hand-over against the library, nobody lost, memory over --minutes',
    run: serviceWaiters,
  },
]
