import { setTimeout as sleep } from 'node:timers/promises'
import { memcachedCommand } from 'holdfast-servers'
import type { LabAcquireOptions, LabHold, LabLock, LabWorld } from '../../lock.js'

const POLL_MS = 50
/** The server counts in whole seconds, and its count can be behind by just under two. */
const BEHIND_SECONDS = 2

/** Whoever stores the item first has the lock until the time is over. That the item can vanish before is not thought of. */
export class AddOnce implements LabLock {
  readonly #port: number

  constructor(world: LabWorld) {
    this.#port = Number(new URL(world.url).port)
  }

  async acquire(name: string, { ttlMs, waitMs }: LabAcquireOptions): Promise<LabHold | null> {
    const key = `lock:${name}`
    const token = crypto.randomUUID()
    const seconds = Math.ceil(ttlMs / 1_000) + BEHIND_SECONDS
    const endsAt = performance.now() + waitMs
    for (;;) {
      const deadline = performance.now() + ttlMs
      const answer = await memcachedCommand(this.#port, `add ${key} 0 ${seconds} ${token.length}\r\n${token}`)
      if (answer.startsWith('STORED')) {
        return { deadline: () => deadline, release: () => this.#release(key, token) }
      }
      if (performance.now() + POLL_MS > endsAt) return null
      await sleep(POLL_MS)
    }
  }

  async close(): Promise<void> {}

  /** Deletes the item only if it is its own. */
  async #release(key: string, token: string): Promise<'released' | 'gone'> {
    const found = await memcachedCommand(this.#port, `get ${key}`, /END\r\n$/)
    if (!found.includes(token)) return 'gone'
    await memcachedCommand(this.#port, `delete ${key}`)
    return 'released'
  }
}
