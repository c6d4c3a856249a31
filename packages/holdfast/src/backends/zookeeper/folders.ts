import { hasCode } from './errors.js'
import type { Acl, ZooKeeper } from './wire/zookeeper.js'

const NOTHING = Buffer.alloc(0)

/** Makes the folder of a lock: a container, which the server removes some time after the last claim has left. */
export async function makeFolder(client: ZooKeeper, path: string, acl: readonly Acl[]): Promise<void> {
  const parts = path.slice(1).split('/')
  for (const index of parts.keys()) {
    const parent = `/${parts.slice(0, index + 1).join('/')}`
    const mode = index === parts.length - 1 ? 'container' : 'persistent'
    try {
      await client.create(parent, NOTHING, { mode, acl })
    } catch (error) {
      // Whoever may not create on the way may still do so at the end, where it counts.
      if (!hasCode(error, 'NODE_EXISTS') && !hasCode(error, 'NO_AUTH')) throw error
    }
  }
}
