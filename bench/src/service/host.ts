/** Servers in processes of their own: the service, and the framework that it stands on with nothing behind it. */

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { fastify } from 'fastify'
import { createService } from 'holdfast-service'
import { type Worker, withCrew, workAs } from '../crew.js'

/** The first argument that makes the program a host of a server. */
export const SERVICE_HOST_FLAG = '--service-host'

export interface Memory {
  readonly rss: number
  readonly heapUsed: number
}

class Host {
  close: () => Promise<unknown> = async () => {}
  readonly collect: () => void

  constructor() {
    setFlagsFromString('--expose-gc')
    this.collect = runInNewContext('gc') as () => void
  }
}

const tasks = {
  /** Serves the store, and says on which port. */
  async serve(host: Host, url: string): Promise<number> {
    const service = await createService({ url, listen: { host: '127.0.0.1', port: 0 } })
    host.close = () => service.close({ drainMs: 0 })
    return Number(new URL(await service.listen()).port)
  },
  /** The framework with a route that does nothing. */
  async serveNothing(host: Host, _ask: null): Promise<number> {
    const app = fastify()
    app.post('/', async () => ({}))
    host.close = () => app.close()
    return Number(new URL(await app.listen({ host: '127.0.0.1', port: 0 })).port)
  },
  async memory(host: Host, _ask: null): Promise<Memory> {
    host.collect()
    const { rss, heapUsed } = process.memoryUsage()
    return { rss, heapUsed }
  },
  /** Microseconds of the processor since the process began. */
  async processor(_host: Host, _ask: null): Promise<number> {
    const { user, system } = process.cpuUsage()
    return user + system
  },
  async stop(host: Host, _ask: null): Promise<void> {
    await host.close()
  },
}

export type ServiceHost = Worker<typeof tasks>

export async function hostServer(): Promise<void> {
  await workAs(tasks, new Host())
}

export function withHosts<R>(size: number, use: (hosts: readonly ServiceHost[]) => Promise<R>): Promise<R> {
  return withCrew<typeof tasks, R>({ flag: SERVICE_HOST_FLAG, argument: '', size }, use)
}
