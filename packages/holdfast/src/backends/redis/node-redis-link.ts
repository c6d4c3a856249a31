/** Redis through node-redis: a single server, Sentinel, or a cluster. */

import type { NodeRedisClient, NodeRedisCluster, NodeRedisSentinel } from './client.js'
import { notServed } from './errors.js'
import {
  type End,
  type RedisLink,
  type RedisNode,
  type Subscription,
  type SubscriptionEvents,
  sendAll,
} from './link.js'
import { slotOf } from './slot.js'

type Commands = readonly (readonly string[])[]

export class NodeRedisLink implements RedisLink {
  readonly isCluster = false
  readonly keyPrefix = ''
  readonly #client: NodeRedisClient
  readonly #end: End
  readonly #listening = new Set<NodeRedisClient>()

  constructor(client: NodeRedisClient, end: End) {
    this.#client = client
    this.#end = end
  }

  send(_key: string, args: readonly string[]): Promise<unknown> {
    return this.#client.sendCommand(args as string[])
  }

  async sendTogether(_key: string, commands: Commands): Promise<readonly unknown[]> {
    return await sendAll(nodeOf(this.#client), commands)
  }

  async masters(): Promise<readonly RedisNode[]> {
    return [nodeOf(this.#client)]
  }

  /** A connection that listens is one of its own, and ours to close. */
  async subscribe(channel: string, events: SubscriptionEvents): Promise<Subscription> {
    const client = this.#client.duplicate()
    let isUp = false
    this.#listening.add(client)
    client.on('error', ignore)
    client.on('ready', () => {
      if (isUp) events.restored()
    })
    try {
      await client.connect()
      await client.subscribe(channel, (text) => events.message(text))
    } catch (error) {
      this.#endListening(client)
      throw error
    }
    isUp = true
    return { close: async () => this.#endListening(client) }
  }

  /** A subscription that was never confirmed has a connection, too. */
  async close(): Promise<void> {
    for (const client of this.#listening) this.#endListening(client)
    await this.#end()
  }

  #endListening(client: NodeRedisClient): void {
    this.#listening.delete(client)
    if (client.isOpen) client.destroy()
  }
}

export class NodeRedisSentinelLink implements RedisLink {
  readonly isCluster = false
  readonly keyPrefix = ''
  readonly #client: NodeRedisSentinel
  readonly close: End

  constructor(client: NodeRedisSentinel, end: End) {
    this.#client = client
    this.close = end
  }

  send(_key: string, args: readonly string[]): Promise<unknown> {
    return this.#client.sendCommand(false, args as string[])
  }

  async sendTogether(_key: string, commands: Commands): Promise<readonly unknown[]> {
    return await this.#client.use(
      async (leased) =>
        await sendAll({ send: (args) => leased.sendCommand(false, args as string[]) }, commands),
    )
  }

  async masters(): Promise<readonly RedisNode[]> {
    return [{ send: (args) => this.send('', args) }]
  }

  async subscribe(channel: string, events: SubscriptionEvents): Promise<Subscription> {
    return await subscribeBeside(this.#client, channel, events)
  }
}

export class NodeRedisClusterLink implements RedisLink {
  readonly isCluster = true
  readonly keyPrefix = ''
  readonly #client: NodeRedisCluster
  readonly close: End

  constructor(client: NodeRedisCluster, end: End) {
    this.#client = client
    this.close = end
  }

  send(key: string, args: readonly string[]): Promise<unknown> {
    return this.#client.sendCommand(key, false, args as string[])
  }

  async sendTogether(key: string, commands: Commands): Promise<readonly unknown[]> {
    const shard = this.#client.slots[slotOf(key)]
    if (shard === undefined) throw notServed()
    return await sendAll(nodeOf(await this.#client.nodeClient(shard.master as never)), commands)
  }

  async masters(): Promise<readonly RedisNode[]> {
    const clients = this.#client.masters.map((node) => this.#client.nodeClient(node as never))
    return (await Promise.all(clients)).map(nodeOf)
  }

  async subscribe(channel: string, events: SubscriptionEvents): Promise<Subscription> {
    return await subscribeBeside(this.#client, channel, events)
  }
}

/** Sentinel and cluster clients listen on a connection of their own beside the others, and move it when they must. */
async function subscribeBeside(
  client: Pick<NodeRedisCluster, 'subscribe' | 'unsubscribe' | 'isOpen'>,
  channel: string,
  events: SubscriptionEvents,
): Promise<Subscription> {
  const listener = (text: string): void => events.message(text)
  await client.subscribe(channel, listener)
  return {
    close: async () => {
      // Nobody listens any more; whether the server has heard of it, too, is not worth waiting for.
      if (client.isOpen) client.unsubscribe(channel, listener as never).catch(ignore)
    },
  }
}

function ignore(): void {}

function nodeOf(client: { sendCommand(args: string[]): Promise<unknown> }): RedisNode {
  return { send: (args) => client.sendCommand(args as string[]) }
}
