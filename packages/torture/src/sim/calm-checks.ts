import { LockLostError, type Locks } from 'holdfast'
import type { MemoryStore } from 'holdfast/memory'
import { Violation } from './violation.js'

/** A claim that an operator took away shows at the release, and `run()` then rejects. */
export async function checkLossAtRelease(locks: Locks, store: MemoryStore): Promise<void> {
  const body = (): void => {
    for (const { ref } of store.inspect('z').holders) store.evict('z', ref)
  }
  const error: unknown = await locks
    .mutex('z')
    .run(body)
    .catch((reason: unknown) => reason)
  if (!(error instanceof LockLostError)) {
    throw new Violation('loss-ignored', 'run() resolved although the store had lost its claim')
  }
}

/** A reader that waits for a writer gets the lock when the writer becomes a reader, and not only at its release. */
export async function checkDowngrade(one: Locks, other: Locks): Promise<void> {
  const writer = await one.readWrite('z').write().acquire()
  const waiting = other.readWrite('z').read().tryAcquire({ waitMs: 10_000 })
  const reader = await writer.downgrade()
  const second = await waiting
  if (second === null) throw new Violation('stuck', 'a downgrade did not admit a reader')
  await second.release()
  await reader.release()
}
