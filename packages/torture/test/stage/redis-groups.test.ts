import { describeStages } from './stage-suite.js'

const faults = ['server-kill', 'server-pause', 'failover'] as const

describeStages([
  { store: 'redis-sentinel', recipe: 'line', faults },
  { store: 'redis-cluster', recipe: 'line', faults },
])
