/** Everything on Consul. */

import type { Group } from '../group.js'
import { uncontended } from './uncontended.js'

export const consulGroups: readonly Group[] = [1, 64].map((inFlight) => ({
  name: `consul-uncontended-${inFlight}`,
  about: `acquire + release, ${inFlight} in flight, against the bare requests`,
  run: (bench) => uncontended(bench, inFlight),
}))
