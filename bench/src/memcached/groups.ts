/** Everything on memcached. */

import type { Group } from '../group.js'
import { uncontended } from './uncontended.js'

export const memcachedGroups: readonly Group[] = [1, 64].map((inFlight) => ({
  name: `memcached-uncontended-${inFlight}`,
  about: `acquire + release, ${inFlight} in flight, against a bare add and delete`,
  run: (bench) => uncontended(bench, inFlight),
}))
