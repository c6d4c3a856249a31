// @module-tag exclusion
import { expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks } from '../../src/client/client.js'
import type { Claim, Patience, Verdict } from '../../src/core/backend.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'

/** Answers the first attempt only when the test says so. */
class LateAnswer extends RelayBackend {
  answer: (() => void) | null = null

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const verdict = await super.attempt(claim, patience)
    if (this.answer === null) await new Promise<void>((resolve) => void (this.answer = resolve))
    return verdict
  }
}

it('keeps a released lock for its minHoldMs when a late answer to an earlier attempt arrives', async () => {
  const time = new VirtualTime()
  const store = new MemoryStore({ nowMs: () => time.nowMs })
  const relay = new LateAnswer(memoryBackend(store))
  const locks = await createLocks(relay, { ttlMs: 300, requestMs: 100 }, new VirtualRuntime(time))
  const other = await createLocks(memoryBackend(store), {}, new VirtualRuntime(time))
  const acquiring = locks.mutex('job', { renew: false, minHoldMs: 800 }).acquire()
  let since = -1
  const releasing = acquiring.then(async (hold) => {
    since = time.nowMs
    return await hold.release()
  })
  while (since < 0) await time.advance(1)
  expect(await releasing).toBe('released')
  // The client has given the lease up by now, because little of it is left. The lock stays taken until its minimum is over.
  await time.advance(since + 760 - time.nowMs)
  relay.answer?.()
  await time.advance(10)
  expect(await other.mutex('job').tryAcquire()).toBeNull()
  await time.advance(100)
  const next = await other.mutex('job').tryAcquire()
  expect(next).not.toBeNull()
  await next?.release()
  await locks.close()
  await other.close()
})
