import { memcachedCommand } from 'holdfast-servers'
import type { Stage } from '../../src/stage/stage.js'
import { describeStages, NETWORK, portOf } from './stage-suite.js'

const faults = [...NETWORK, 'duplicate', 'server-kill', 'server-pause', 'evict'] as const

/** An item that nobody renews, and that does not end. */
async function plant(stage: Stage): Promise<() => Promise<void>> {
  const port = portOf(stage)
  await memcachedCommand(port, 'set planted 0 0 8\r\nsomebody')
  return async () => void (await memcachedCommand(port, 'delete planted'))
}

describeStages(['record', 'add'].map((recipe) => ({ store: 'memcached', recipe, faults, plant })))
