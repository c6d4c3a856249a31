/**
 * Behind Sentinel: leaves a master when another one was chosen. ioredis by itself stays until the old one hangs up, and one
 * that was only paused goes on as a master for ten seconds after it woke up, until the sentinels have made it a replica:
 * time enough to give away what others hold at the new one.
 */

import type { HostAndPort } from '../../core/address.js'
import type { IoredisClient } from './client.js'

/** What is needed of a client that shall follow the master. */
export interface FollowingClient extends IoredisClient {
  readonly status: string
  disconnect(reconnect?: boolean): void
}

interface Follower {
  readonly client: FollowingClient
  /** Where the master has gone, as long as the client was not told to go there, too. */
  movedTo: string | null
}

const CHANNEL = '+switch-master'

/** The name, the old address and the new one. */
const MOVED = /^(\S+) \S+ \d+ (\S+ \d+)$/

export class SentinelWatch {
  readonly #sentinels: readonly IoredisClient[]
  readonly #followers = new Set<Follower>()

  /** `connect` makes a client for one sentinel, which goes on trying to reach it. */
  constructor(
    hosts: readonly HostAndPort[],
    masterName: string,
    connect: (host: HostAndPort) => IoredisClient,
  ) {
    this.#sentinels = hosts.map((host) => {
      const sentinel = connect(host)
      // A sentinel that is gone is no reason to worry: there are others, and the old master hangs up in the end.
      sentinel.on('error', ignore)
      sentinel.on('message', (_channel, text) => {
        const [, name, address] = MOVED.exec(text) ?? []
        if (name === masterName && address !== undefined) this.#moved(address)
      })
      sentinel.subscribe(CHANNEL).catch(ignore)
      return sentinel
    })
  }

  follow(client: FollowingClient): void {
    const follower: Follower = { client, movedTo: null }
    this.#followers.add(follower)
    client.on('ready', () => leave(follower))
    client.on('end', () => this.#followers.delete(follower))
  }

  close(): void {
    for (const sentinel of this.#sentinels) sentinel.disconnect()
    this.#followers.clear()
  }

  #moved(address: string): void {
    for (const follower of this.#followers) {
      follower.movedTo = address
      leave(follower)
    }
  }
}

/**
 * Only when it is connected, since ioredis gives up for good if it is told while it looks for the master; and once for each
 * message, because sentinels may know the servers by other addresses than those that are seen from here.
 */
function leave(follower: Follower): void {
  const { client, movedTo } = follower
  if (movedTo === null || client.status !== 'ready') return
  follower.movedTo = null
  const { remoteAddress, remotePort } = client.stream ?? {}
  if (`${remoteAddress} ${remotePort}` !== movedTo) client.disconnect(true)
}

function ignore(): void {}
