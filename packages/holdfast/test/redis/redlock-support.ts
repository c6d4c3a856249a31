/** Five masters for a file of tests, and what can be done to them. */

import { type RedisServer, startProxy, startRedisMasters, type TcpProxy } from 'holdfast-servers'
import { afterAll, beforeAll, beforeEach } from 'vitest'
import { type RedlockOptions, redlockBackend } from '../../src/backends/redis/redlock.js'
import type { Backend, Claim, Renewal } from '../../src/core/backend.js'
import { afterwards, type Door, freshPrefix, ioredisTo } from './nx-support.js'

export const NOBODY = { granted: () => {}, wanted: () => {}, hint: () => {}, lost: () => {} }

export class Masters {
  servers: readonly RedisServer[] = []
  /** Another one for each test. */
  prefix = ''
  #dispose: () => Promise<void> = async () => {}

  /** Call it at the top of a file. */
  static forThisFile(): Masters {
    const masters = new Masters()
    beforeAll(async () => {
      const { servers, dispose } = await startRedisMasters(5)
      masters.servers = servers
      masters.#dispose = dispose
    })
    afterAll(() => masters.#dispose())
    beforeEach(() => {
      masters.prefix = freshPrefix()
    })
    return masters
  }

  at(index: number): RedisServer {
    return this.servers[index] as RedisServer
  }

  /** The servers are fresh, so they are trusted unless a test says otherwise. */
  backend(options: Partial<RedlockOptions> = {}, doors: readonly Door[] = this.servers): Backend {
    const { prefix } = this
    const clients = options.clients ?? doors.map((door) => ioredisTo(door))
    return redlockBackend({ prefix, restartDelayMs: 0, nodeMs: 5_000, ...options, clients })
  }

  /** Which of the servers have the key, as a text of their numbers. */
  async placesOf(resource: string, from = 0, to = this.servers.length): Promise<string> {
    const indices = [...this.servers.keys()].slice(from, to)
    const found = await Promise.all(
      indices.map((index) => this.at(index).command('EXISTS', this.prefix + resource)),
    )
    return indices.filter((_, position) => found[position] === 1).join('')
  }

  /** Puts the lock of another program there. */
  async occupy(indices: readonly number[], value: string, resource = 'a'): Promise<void> {
    for (const index of indices) {
      await this.at(index).command('SET', this.prefix + resource, value, 'PX', 60_000)
    }
  }

  async free(indices: readonly number[], resource = 'a'): Promise<void> {
    for (const index of indices) await this.at(index).command('DEL', this.prefix + resource)
  }

  /** Stops servers as a machine that hangs would: connections stay open, and nothing is answered. */
  async pause(...indices: readonly number[]): Promise<void> {
    for (const index of indices) await this.at(index).pause()
    afterwards(() => this.resume(...indices))
  }

  async resume(...indices: readonly number[]): Promise<void> {
    for (const index of indices) await this.at(index).resume()
  }

  /** One in front of each server. */
  async proxies(): Promise<readonly TcpProxy[]> {
    const proxies = await Promise.all(this.servers.map(({ port }) => startProxy(port)))
    afterwards(() => Promise.all(proxies.map((proxy) => proxy.dispose())))
    return proxies
  }
}

export async function renew(backend: Backend, claim: Claim): Promise<Renewal | undefined> {
  return (await backend.renew([{ claim, fence: null, leaseMs: claim.ttlMs }]))[0]
}
