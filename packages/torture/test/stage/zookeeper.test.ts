import { describeStages, NETWORK } from './stage-suite.js'

const faults = [...NETWORK, 'server-kill', 'server-pause'] as const

describeStages(
  ['sequential', 'ephemeral'].flatMap((recipe) => [
    { store: 'zookeeper', recipe, faults },
    { store: 'zookeeper-ensemble', recipe, faults: [...faults, 'failover', 'partition'] },
  ]),
)
