/** Redis through ioredis: a single server, Sentinel, or a cluster. */

import { nextTick } from 'node:process'
import type { IoredisClient, IoredisCluster, IoredisNode } from './client.js'
import { notServed } from './errors.js'
import type { End, RedisLink, RedisNode, Subscription, SubscriptionEvents } from './link.js'
import { slotOf } from './slot.js'

export class IoredisLink implements RedisLink {
  readonly isCluster = false
  readonly keyPrefix: string
  readonly #client: IoredisClient
  readonly #end: End
  readonly #listening = new Set<IoredisClient>()
  #gathered: IoredisClient['stream'] = undefined
  /** Commands that have not been answered. */
  #underWay = 0

  constructor(client: IoredisClient, end: End) {
    this.#client = client
    this.#end = end
    this.keyPrefix = client.options.keyPrefix ?? ''
  }

  send(_key: string, args: readonly string[]): Promise<unknown> {
    // Whoever is alone need not wait for anybody.
    if (this.#underWay > 0) this.#gather()
    this.#underWay += 1
    const answer = call(this.#client, args)
    answer.then(this.#answered, this.#answered)
    return answer
  }

  readonly #answered = (): void => {
    this.#underWay -= 1
  }

  /**
   * What is sent before the event loop goes on leaves in one piece. ioredis writes each command by itself, and under load
   * that is the dearest part of it; whoever waited for answers that came together asks the next things together.
   */
  #gather(): void {
    const { stream } = this.#client
    if (stream === undefined || stream === this.#gathered) return
    this.#gathered = stream
    stream.cork()
    nextTick(() => {
      this.#gathered = undefined
      stream.uncork()
    })
  }

  async sendTogether(_key: string, commands: readonly (readonly string[])[]): Promise<readonly unknown[]> {
    return await pipelined(this.#client, commands)
  }

  async masters(): Promise<readonly RedisNode[]> {
    return [nodeOf(this.#client)]
  }

  /** A connection that listens can do nothing else, so it is one of its own, and ours to close. */
  async subscribe(channel: string, events: SubscriptionEvents): Promise<Subscription> {
    const client = this.#client.duplicate({
      autoResubscribe: true,
      lazyConnect: true,
      // The subscription is what it is for: it waits for the connection, however long that takes.
      enableOfflineQueue: true,
      maxRetriesPerRequest: null,
      keyPrefix: '',
    })
    const end = (): void => {
      this.#listening.delete(client)
      client.disconnect()
    }
    this.#listening.add(client)
    const listeners = new Listeners(client, channel, events)
    try {
      await client.subscribe(channel)
    } catch (error) {
      end()
      throw error
    }
    listeners.isUp = true
    return { close: async () => end() }
  }

  /** A subscription that was never confirmed has a connection, too. */
  async close(): Promise<void> {
    for (const client of this.#listening) client.disconnect()
    this.#listening.clear()
    await this.#end()
  }
}

export class IoredisClusterLink implements RedisLink {
  readonly isCluster = true
  readonly keyPrefix: string
  readonly #client: IoredisCluster
  readonly close: End

  constructor(client: IoredisCluster, end: End) {
    this.#client = client
    this.close = end
    this.keyPrefix = client.options.keyPrefix ?? ''
  }

  send(_key: string, args: readonly string[]): Promise<unknown> {
    return call(this.#client, args)
  }

  async sendTogether(key: string, commands: readonly (readonly string[])[]): Promise<readonly unknown[]> {
    const [address] = this.#client.slots[slotOf(this.keyPrefix + key)] ?? []
    const node = this.#client
      .nodes('master')
      .find(({ options: { host, port } }) => `${host}:${port}` === address)
    if (node === undefined) throw notServed()
    return await pipelined(node, commands)
  }

  async masters(): Promise<readonly RedisNode[]> {
    return this.#client.nodes('master').map(nodeOf)
  }

  /** A cluster client listens on a connection of its own beside the others. */
  async subscribe(channel: string, events: SubscriptionEvents): Promise<Subscription> {
    const client = this.#client
    const listeners = new Listeners(client, channel, events)
    try {
      await client.subscribe(channel)
    } catch (error) {
      listeners.remove()
      throw error
    }
    listeners.isUp = true
    return {
      close: async () => {
        listeners.remove()
        // Nobody listens any more; whether the server has heard of it, too, is not worth waiting for.
        client.unsubscribe(channel).catch(ignore)
      },
    }
  }
}

type Emitter = Pick<IoredisClient, 'on' | 'off'>

class Listeners {
  isUp = false
  readonly #emitter: Emitter
  readonly #onMessage: (from: string, text: string) => void
  readonly #onReady: () => void

  constructor(emitter: Emitter, channel: string, events: SubscriptionEvents) {
    this.#emitter = emitter
    this.#onMessage = (from, text) => {
      if (from === channel) events.message(text)
    }
    this.#onReady = () => {
      if (this.isUp) events.restored()
    }
    emitter.on('message', this.#onMessage)
    emitter.on('ready', this.#onReady)
    // What goes wrong shows in the commands; without a listener it would end the process.
    emitter.on('error', ignore)
  }

  remove(): void {
    this.#emitter.off('message', this.#onMessage)
    this.#emitter.off('ready', this.#onReady)
    this.#emitter.off('error', ignore)
  }
}

function ignore(): void {}

function call(client: Pick<IoredisNode, 'call'>, args: readonly string[]): Promise<unknown> {
  const [command, ...rest] = args
  return client.call(command as string, rest)
}

function nodeOf(client: Pick<IoredisNode, 'call'>): RedisNode {
  return { send: (args) => call(client, args) }
}

/** A pipeline is written as one piece, and ioredis never sends a part of it again over another connection. */
async function pipelined(
  node: Pick<IoredisNode, 'pipeline'>,
  commands: readonly (readonly string[])[],
): Promise<readonly unknown[]> {
  const answers = await node.pipeline(commands.map((args) => ['call', ...args])).exec()
  return (answers as [unknown, unknown][]).map(([error, value]) => error ?? value)
}
