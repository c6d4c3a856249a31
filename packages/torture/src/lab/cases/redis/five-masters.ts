/** Five masters that know nothing of each other, and two clients of which each can be cut off from some of them. */

import { type RedisMasters, type RedisServer, startRedisMasters, type TcpProxy } from 'holdfast-servers'
import type { Scene } from '../../scene.js'

export interface Ways {
  readonly url: string
  readonly relays: readonly TcpProxy[]
}

export class FiveMasters {
  readonly #scene: Scene
  readonly #masters: RedisMasters

  private constructor(scene: Scene, masters: RedisMasters) {
    this.#scene = scene
    this.#masters = masters
  }

  static async start(
    scene: Scene,
    options: Parameters<typeof startRedisMasters>[1] = {},
  ): Promise<FiveMasters> {
    return new FiveMasters(scene, scene.own(await startRedisMasters(5, options)))
  }

  /** Nodes are called 1 to 5. */
  node(number: number): RedisServer {
    const server = this.#masters.servers[number - 1]
    if (server === undefined) throw new Error(`There is no node ${number}.`)
    return server
  }

  /** A way of its own to every node, for one client. */
  async ways(): Promise<Ways> {
    const relays = await Promise.all(this.#masters.servers.map(({ port }) => this.#scene.relay(port)))
    return { url: `redis+redlock://${relays.map(({ port }) => `127.0.0.1:${port}`).join(',')}`, relays }
  }

  /** What this client sends to these nodes does not arrive, and it hears nothing of them. */
  cutOff(client: string, { relays }: Ways, nodes: readonly number[]): void {
    this.#scene.faultBegins('partition', `${client} from the nodes ${nodes.join(' and ')}`)
    for (const number of nodes) relays[number - 1]?.hold(true)
  }

  /** A node that has just started has no say with ours, so the schedule begins when all have been up for this long. */
  async upFor(seconds: number): Promise<void> {
    for (const server of this.#masters.servers) {
      await this.#scene.until(
        async () => Number((await server.info('server'))['uptime_in_seconds']) >= seconds,
        200,
      )
    }
  }
}
