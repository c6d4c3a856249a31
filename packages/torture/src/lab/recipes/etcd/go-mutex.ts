import { setTimeout as sleep } from 'node:timers/promises'
import type { LabAcquireOptions, LabHold, LabLock, LabWorld } from '../../lock.js'
import { EtcdClient } from './client.js'

const POLL_MS = 50
/** etcd gives no shorter lease. */
const LEASE_SECONDS_MIN = 2

/**
 * The mutex of etcd's Go package: a key below the name, kept by a lease, and whoever has no older key before it holds. The
 * name is the prefix as it is. Versions after 3.4.3 look again, at the end, whether the own key is still there.
 */
export class GoMutex implements LabLock {
  readonly #etcd: EtcdClient
  readonly #looksAgain: boolean
  #lease: string | null = null
  #renewing: NodeJS.Timeout | undefined

  constructor(world: LabWorld, { looksAgain }: { readonly looksAgain: boolean }) {
    this.#etcd = new EtcdClient(world.url)
    this.#looksAgain = looksAgain
  }

  async acquire(name: string, { ttlMs, waitMs }: LabAcquireOptions): Promise<LabHold | null> {
    const endsAt = performance.now() + waitMs
    this.#lease ??= await this.#begin(ttlMs)
    const key = `${name}/${BigInt(this.#lease).toString(16)}`
    const revision = await this.#etcd.putOnce(key, this.#lease)
    while ((await this.#etcd.lastBefore(`${name}/`, revision)) !== null) {
      if (performance.now() + POLL_MS > endsAt) {
        await this.#etcd.delete(key)
        return null
      }
      await sleep(POLL_MS)
    }
    if (this.#looksAgain && !(await this.#etcd.has(key))) throw new Error('session is expired')
    return { release: async () => ((await this.#etcd.delete(key)) ? 'released' : 'gone') }
  }

  async close(): Promise<void> {
    clearInterval(this.#renewing)
    if (this.#lease !== null) await this.#etcd.revoke(this.#lease)
  }

  /** One lease for all locks of a client, which is kept alive in the background. */
  async #begin(ttlMs: number): Promise<string> {
    const lease = await this.#etcd.grantLease(Math.max(LEASE_SECONDS_MIN, Math.ceil(ttlMs / 1_000)))
    this.#renewing = setInterval(() => {
      this.#etcd.keepAlive(lease).catch(() => {})
    }, ttlMs / 3)
    return lease
  }
}
