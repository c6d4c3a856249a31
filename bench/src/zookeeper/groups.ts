/** Everything on ZooKeeper. */

import type { Group } from '../group.js'
import { handOver } from './hand-over.js'
import { uncontended } from './uncontended.js'

export const zookeeperGroups: readonly Group[] = [
  ...[1, 64].map((inFlight) => ({
    name: `zookeeper-uncontended-${inFlight}`,
    about: `acquire + release, ${inFlight} in flight, against the bare requests`,
    run: (bench: Parameters<Group['run']>[0]) => uncontended(bench, inFlight),
  })),
  {
    name: 'zookeeper-hand-over',
    about: 'how long a hand-over between two processes takes, here and with Apache Curator',
    run: handOver,
  },
]
