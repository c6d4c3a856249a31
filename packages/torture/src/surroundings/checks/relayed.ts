/** The URL of a recipe through relays of this process, so that connections can be cut. */

import { startProxy, type TcpProxy } from 'holdfast-servers'
import { portsOf } from '../probes/probe.js'

export interface Relayed {
  readonly url: string
  /** Whether there is a network between the client and its store. */
  readonly isRemote: boolean
  /** Ends every connection, and refuses new ones until `restore` is called. */
  cut(): void
  restore(): void
  dispose(): Promise<void>
}

export async function relayed(url: string): Promise<Relayed> {
  const relays: TcpProxy[] = []
  let own = url
  for (const port of portsOf(url)) {
    const relay = await startProxy(port)
    relays.push(relay)
    own = own.replace(`127.0.0.1:${port}`, `127.0.0.1:${relay.port}`)
  }
  return {
    url: own,
    isRemote: relays.length > 0,
    cut: () => {
      for (const relay of relays) {
        relay.refuse(true)
        relay.cut()
      }
    },
    restore: () => {
      for (const relay of relays) relay.refuse(false)
    },
    dispose: async () => {
      await Promise.all(relays.map((relay) => relay.dispose()))
    },
  }
}
