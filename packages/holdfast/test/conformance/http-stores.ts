import { randomBytes } from 'node:crypto'
import { openRemote } from '../../src/backends/http/open.js'
import { createLocks } from '../../src/client/client.js'
import type { Backend } from '../../src/core/backend.js'
import type { OpenedStore } from '../../src/testing.js'
import { Corner } from './corner.js'
import { killWhileHolding } from './crash-child.js'

export interface RemoteCases {
  /** The URL for the next client. */
  readonly url: () => string
  /** What stands between the clients and the service. */
  readonly wrap?: (backend: Backend) => Backend
}

/** One case: a corner of its own at the service. */
export async function openCorner({ url, wrap = (backend) => backend }: RemoteCases): Promise<OpenedStore> {
  const corner = `${randomBytes(5).toString('hex')}:`
  const backend = async (): Promise<Backend> => new Corner(wrap(await openRemote(url())), corner)
  const operator = await createLocks(await backend(), { requestMs: 30_000 })
  return {
    connect: async (settings, outer = (each) => each) => createLocks(outer(await backend()), settings),
    sever: async (name) => void (await operator.evict(name, { reason: 'severed by the suite' })),
    crash: (name, { ttlMs }) =>
      killWhileHolding('./redis-crash-child.mjs', [url(), corner + name, String(ttlMs)]),
    async leftovers() {
      const names: string[] = []
      for await (const { resource } of operator.list()) names.push(resource)
      return names
    },
    close: () => operator.close(),
  }
}
