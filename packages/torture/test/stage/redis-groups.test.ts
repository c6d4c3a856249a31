import { describeStages, NETWORK } from './stage-suite.js'

const faults = [...NETWORK, 'duplicate', 'server-kill', 'server-pause', 'failover', 'partition'] as const

describeStages([
  { store: 'redis-sentinel', recipe: 'line', faults: [...faults, 'failover-clock'] },
  { store: 'redis-cluster', recipe: 'line', faults: [...faults, 'reshard'] },
])
