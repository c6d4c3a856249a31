import { redisCommand } from 'holdfast-servers'
import type { Stage } from '../../src/stage/stage.js'
import { describeStages, NETWORK, portOf } from './stage-suite.js'

const faults = [
  ...NETWORK,
  'duplicate',
  'server-kill',
  'server-pause',
  'server-swap',
  'failover-clock',
  'clock',
  'evict',
] as const

/** A key that nobody renews, and that does not end. */
async function plant(stage: Stage): Promise<() => Promise<void>> {
  const port = portOf(stage)
  await redisCommand(port, ['SET', 'planted', 'somebody'])
  return async () => void (await redisCommand(port, ['DEL', 'planted']))
}

describeStages([
  { store: 'redis', recipe: 'line', faults, plant },
  { store: 'redis', recipe: 'set-nx', faults, plant },
  { store: 'redis', recipe: 'redlock', faults, plant },
])
