/** What people may see of the locks in Consul, made by whomever, and how an operator breaks one. */

import type { Eviction, ResourceView } from '../../core/backend.js'
import { isOutage } from '../sessions/entry.js'
import { refOfPair, writtenIn } from './holder.js'
import type { Keys, Place } from './keys.js'
import type { ConsulStore, Pair } from './kv.js'
import type { Found } from './layout.js'
import { foundMutex } from './mutex.js'
import { foundSemaphore, without } from './semaphore.js'

const TRIES_MAX = 20

export class Views {
  readonly #store: ConsulStore
  readonly #keys: Keys

  constructor(store: ConsulStore, keys: Keys) {
    this.#store = store
    this.#keys = keys
  }

  async inspect(resource: string): Promise<ResourceView> {
    const found = await this.#find(this.#keys.of(resource))
    return viewOfFound(resource, found)
  }

  async *list(prefix: string): AsyncGenerator<ResourceView> {
    const names: string[] = []
    for (const key of await this.#store.names(this.#keys.base)) {
      const name = this.#keys.isHashedKey(key) ? await this.#longName(key) : this.#keys.resourceOf(key)
      if (name?.startsWith(prefix)) names.push(name)
    }
    for (const name of [...new Set(names)].sort(byBytes)) {
      const view = await this.#inspectUnlessForeign(name)
      // It may have been given back since, or be no lock at all.
      if (view !== null && view.shape !== null) yield view
    }
  }

  /** A key that is no lock must not hide all others from a listing; but an agent that does not answer makes it fail. */
  async #inspectUnlessForeign(name: string): Promise<ResourceView | null> {
    try {
      return await this.inspect(name)
    } catch (error) {
      if (isOutage(error)) throw error
      return null
    }
  }

  /** The next one gets a higher fence by itself: it is the number of a later step. */
  async evict(resource: string, ref: string): Promise<Eviction> {
    const place = this.#keys.of(resource)
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const found = await this.#find(place)
      const holder = found?.holders.find(({ pair }) => refOfPair(pair) === ref)
      if (found === null || holder === undefined) return 'gone'
      const { key, session, modifyIndex: index } = holder.pair
      const record = 'state' in found ? without(place, found.state, session ?? '') : []
      // The session itself stays: it may keep other locks, whose holders have done nothing wrong.
      const outcome = await this.#store.transact([{ verb: 'delete-cas', key, index }, ...record])
      if (outcome.kind === 'done') return 'evicted'
    }
    return 'gone'
  }

  async #find(place: Place): Promise<((Found | ReturnType<typeof foundSemaphore>) & object) | null> {
    const { pair } = await this.#store.get(place.mutex)
    const mutex = pair === null ? null : foundMutex(pair)
    if (mutex !== null) return mutex
    if (pair === null && place.mutex === place.record) return null
    return foundSemaphore(await this.#store.tree(place.folder), place)
  }

  /** A name that was too long for a key stands in the value of whoever has it. */
  async #longName(key: string): Promise<string | null> {
    const { pairs } = await this.#store.tree(key.slice(0, key.lastIndexOf('/') + 1))
    const told = pairs.map((pair: Pair) => writtenIn(pair).resource).find((name) => name !== null)
    // Anybody can write a value; a name that does not belong to this key is not believed.
    return told !== undefined && told !== null && this.#keys.of(told).record === key ? told : null
  }
}

function viewOfFound(resource: string, found: Found | null): ResourceView {
  const holders = found?.holders.map(({ view }) => view) ?? []
  return { resource, shape: found?.shape ?? null, holders, waiters: [] }
}

function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
