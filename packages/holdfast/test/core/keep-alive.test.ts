import { describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks } from '../../src/client/client.js'
import type { Timers } from '../../src/core/runtime.js'
import { settle, VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'

/** Counts the timers that keep the process running. */
class Counting extends VirtualRuntime {
  running = 0

  override readonly timers: Timers = {
    start: (afterMs, run, keepAlive) => {
      let isOver = !keepAlive
      const end = (): void => {
        if (!isOver) this.running -= 1
        isOver = true
      }
      if (keepAlive) this.running += 1
      const fire = (): void => {
        end()
        run()
      }
      const timer = this.time.schedule(this.time.nowMs + afterMs, fire)
      return {
        cancel: () => {
          end()
          timer.cancel()
        },
      }
    },
  }
}

async function open() {
  const time = new VirtualTime()
  const runtime = new Counting(time)
  const locks = await createLocks(memoryBackend(new MemoryStore({ nowMs: () => time.nowMs })), {}, runtime)
  return { time, runtime, locks }
}

describe('the process', () => {
  it('keeps running while callers wait for a hold of the same process, with one timer for all of them', async () => {
    const { runtime, locks } = await open()
    const hold = await locks.mutex('x').acquire()
    expect(runtime.running).toBe(0)
    const controller = new AbortController()
    const waiting = [1, 2, 3].map(() => locks.mutex('x').acquire({ signal: controller.signal }))
    const election = locks.election('x').campaign({ signal: controller.signal })
    const set = locks.all(['w', 'x']).acquire({ signal: controller.signal })
    await settle()
    expect(runtime.running).toBe(1)
    controller.abort(new Error('enough'))
    const ends = await Promise.allSettled([...waiting, election, set])
    expect(ends.map(({ status }) => status)).toEqual(ends.map(() => 'rejected'))
    // Holding a lock keeps no process running.
    expect(runtime.running).toBe(0)
    await hold.release()
    await locks.close()
  })

  it('keeps running until a hold that stays for its minHoldMs is handed to the next caller', async () => {
    const { time, runtime, locks } = await open()
    const job = locks.mutex('nightly', { minHoldMs: 1_000 })
    await job.run(() => {})
    let ran = false
    const second = job.run(() => {
      ran = true
    })
    await settle()
    expect(runtime.running).toBe(1)
    await time.advance(1_100)
    await second
    expect(ran).toBe(true)
    expect(runtime.running).toBe(0)
    await locks.close()
  })

  it('keeps running until a hold is over that has reached its maxHoldMs', async () => {
    const { time, runtime, locks } = await open()
    await locks.mutex('nightly', { maxHoldMs: 1_000 }).acquire()
    const second = locks.mutex('nightly').acquire()
    await settle()
    expect(runtime.running).toBe(1)
    // The store ends the lease of the first.
    await time.advance(60_000)
    await (await second).release()
    expect(runtime.running).toBe(0)
    await locks.close()
  })
})
