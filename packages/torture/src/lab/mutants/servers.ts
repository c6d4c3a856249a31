/** The servers that trials share, each started when it is first asked for. */

import { storeFor } from 'holdfast-servers'
import { StoreNotHere } from '../scene.js'

export interface SharedServer {
  readonly url: string
  /** Null where there is none, as for a file. */
  readonly port: number | null
}

export class SharedServers {
  readonly #started = new Map<string, Promise<{ server: SharedServer; dispose: () => Promise<void> }>>()

  /** Rejects with `StoreNotHere` where it cannot be had. */
  async of(store: string): Promise<SharedServer> {
    const starting = this.#started.get(store) ?? start(store)
    this.#started.set(store, starting)
    return (await starting).server
  }

  async dispose(): Promise<void> {
    const all = await Promise.allSettled(this.#started.values())
    this.#started.clear()
    const started = all.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    await Promise.all(started.map((each) => each.dispose()))
  }
}

async function start(name: string): Promise<{ server: SharedServer; dispose: () => Promise<void> }> {
  const outcome = await storeFor(name)
  if (outcome.kind === 'not run') throw new StoreNotHere(outcome.reason)
  const { store } = outcome
  const port = /^[a-z]+:\/\/[^/,]*:(\d+)/.exec(store.url)?.[1]
  return {
    server: { url: store.url, port: port === undefined ? null : Number(port) },
    dispose: () => store.dispose(),
  }
}
