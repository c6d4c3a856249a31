import { ZooKeeper, ZooKeeperError, type ZooKeeperErrorCode } from 'holdfast/zookeeper'
import type { LabWorld } from '../../lock.js'

/** How long the servers keep the session of a silent client; the schedule can ask for another one. */
const SESSION_MS = 6_000

/** Below this the broken recipes have their nodes, one folder for each name. */
export const BASE = '/locks'

export async function zookeeperClient({ url, settings }: LabWorld): Promise<ZooKeeper> {
  const { hostname, port } = new URL(url)
  const { sessionMs } = settings
  return await ZooKeeper.connect({
    hosts: [{ host: hostname, port: Number(port) }],
    sessionMs: typeof sessionMs === 'number' ? sessionMs : SESSION_MS,
  })
}

export function hasCode(error: unknown, ...codes: readonly ZooKeeperErrorCode[]): boolean {
  return error instanceof ZooKeeperError && codes.includes(error.code)
}

/** Makes a node that stays, unless it is there. */
export async function makeFolder(client: ZooKeeper, path: string): Promise<void> {
  try {
    await client.create(path, Buffer.alloc(0))
  } catch (error) {
    if (!hasCode(error, 'NODE_EXISTS')) throw error
  }
}

/** Deletes a node. `gone`: it was not there any more. */
export async function remove(client: ZooKeeper, path: string): Promise<'released' | 'gone'> {
  try {
    await client.delete(path)
    return 'released'
  } catch (error) {
    if (hasCode(error, 'NO_NODE')) return 'gone'
    throw error
  }
}

/** Aborted when the session is over, which is what the handle of ZooKeeper tells its user. */
export function endOf(client: ZooKeeper): AbortSignal {
  const over = new AbortController()
  client.onState((state) => {
    if (state === 'expired' || state === 'closed') over.abort(new Error(`the session is ${state}`))
  })
  return over.signal
}
