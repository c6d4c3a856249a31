/** Everything on etcd. */

import type { Group } from '../group.js'
import { uncontended } from './uncontended.js'

export const etcdGroups: readonly Group[] = [1, 64].map((inFlight) => ({
  name: `etcd-uncontended-${inFlight}`,
  about: `acquire + release, ${inFlight} in flight, against the bare requests and etcd3`,
  run: (bench) => uncontended(bench, inFlight),
}))
