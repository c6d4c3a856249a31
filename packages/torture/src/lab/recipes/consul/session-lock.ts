import { setTimeout as sleep } from 'node:timers/promises'
import type { LabAcquireOptions, LabHold, LabLock, LabWorld } from '../../lock.js'
import { ConsulClient } from './client.js'

const POLL_MS = 50

/** The key is locked by a session, which is renewed in the background. The sessions have no lock delay. */
export abstract class SessionLock implements LabLock {
  protected readonly consul: ConsulClient
  readonly #renewing = new Set<NodeJS.Timeout>()

  constructor(world: LabWorld) {
    this.consul = new ConsulClient(world.url)
  }

  protected abstract giveBack(key: string, session: string): Promise<'released' | 'gone'>

  async acquire(name: string, { ttlMs, waitMs }: LabAcquireOptions): Promise<LabHold | null> {
    const endsAt = performance.now() + waitMs
    const began = performance.now()
    const session = await this.consul.createSession({ ttlMs, lockDelay: '0s' })
    const lease = this.#kept(session, began, ttlMs)
    const key = `locks/${name}`
    while (!(await this.consul.put(key, '', `acquire=${session}`))) {
      if (performance.now() + POLL_MS > endsAt) {
        lease.end()
        await this.consul.destroySession(session)
        return null
      }
      await sleep(POLL_MS)
    }
    const taken = await this.consul.get(key)
    return {
      // Consul counts every change, so the number of the one that took the lock is at hand.
      ...(taken === null ? {} : { fence: BigInt(taken.modifyIndex) }),
      deadline: lease.deadline,
      signal: lease.signal,
      assertHeld: () => {
        if (performance.now() > lease.deadline()) throw new Error('session over')
      },
      release: async () => {
        lease.end()
        return await this.giveBack(key, session)
      },
    }
  }

  async close(): Promise<void> {
    for (const timer of this.#renewing) clearInterval(timer)
  }

  /** Renews the session, and counts its time from before each question that was answered. */
  #kept(session: string, began: number, ttlMs: number) {
    const over = new AbortController()
    let deadline = began + ttlMs
    const renew = async (): Promise<void> => {
      const asked = performance.now()
      try {
        await this.consul.renewSession(session)
        deadline = asked + ttlMs
      } catch (error) {
        if (performance.now() > deadline) over.abort(error)
      }
    }
    const timer = setInterval(() => void renew(), ttlMs / 3)
    this.#renewing.add(timer)
    const end = (): void => {
      clearInterval(timer)
      this.#renewing.delete(timer)
    }
    return { deadline: () => deadline, signal: over.signal, end }
  }
}
