import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import { onAbort } from '../../src/core/abort-listeners.js'
import { settle, VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'

async function open(): Promise<{ time: VirtualTime; locks: Locks }> {
  const time = new VirtualTime()
  const store = new MemoryStore({ nowMs: () => time.nowMs })
  return { time, locks: await createLocks(memoryBackend(store), {}, new VirtualRuntime(time)) }
}

const listenersOf = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length

describe('a signal', () => {
  it('has one listener however many callers wait with it, and none when their waits are over', async () => {
    const { locks } = await open()
    const { signal } = new AbortController()
    const hold = await locks.mutex('x').acquire({ signal })
    expect(listenersOf(signal)).toBe(0)
    const waiting = Array.from({ length: 20 }, () =>
      locks
        .mutex('x')
        .acquire({ signal })
        .then((next) => next.release()),
    )
    await settle()
    expect(listenersOf(signal)).toBe(1)
    await hold.release()
    await Promise.all(waiting)
    expect(listenersOf(signal)).toBe(0)
    await locks.close()
  })

  it('ends every wait when it aborts', async () => {
    const { locks } = await open()
    const controller = new AbortController()
    const { signal } = controller
    const hold = await locks.mutex('x').acquire()
    const waits = [
      locks.mutex('x').acquire({ signal }),
      locks.mutex('x').acquire({ signal }),
      locks.all(['w', 'x']).acquire({ signal }),
    ]
    await settle()
    const reason = new Error('enough')
    controller.abort(reason)
    const ends = await Promise.allSettled(waits)
    expect(ends).toEqual(waits.map(() => ({ status: 'rejected', reason })))
    expect(await locks.mutex('w').tryAcquire()).not.toBe(null)
    await hold.release()
    await locks.close()
  })

  it('keeps nothing of all() once the locks are acquired or refused', async () => {
    const { locks } = await open()
    const { signal } = new AbortController()
    const before = Reflect.ownKeys(signal)
    const set = await locks.all(['a', 'b', 'c']).acquire({ signal })
    await expect(locks.all(['a', 'b']).acquire({ signal, waitMs: 0 })).rejects.toMatchObject({
      code: 'ACQUIRE_TIMEOUT',
    })
    await set.release()
    expect(listenersOf(signal)).toBe(0)
    // `AbortSignal.any()` keeps a set of those that depend on a signal, as a property of it.
    expect(Reflect.ownKeys(signal)).toEqual(before)
    await locks.close()
  })

  it('calls nothing that was called off while it aborts', () => {
    const controller = new AbortController()
    const called: string[] = []
    onAbort(controller.signal, () => {
      called.push('first')
      stop()
    })
    const stop = onAbort(controller.signal, () => called.push('second'))
    controller.abort()
    expect(called).toEqual(['first'])
  })
})

describe('observe()', () => {
  it('ends at once when its signal aborts inside the loop, or while it waits', async () => {
    const { time, locks } = await open()
    for (const where of ['inside', 'waiting']) {
      const controller = new AbortController()
      const reason = new Error(where)
      const loop = (async () => {
        for await (const _ of locks.election('e').observe({ everyMs: 5_000, signal: controller.signal })) {
          if (where === 'inside') controller.abort(reason)
        }
      })()
      const ended = expect(loop).rejects.toBe(reason)
      await settle()
      if (where === 'waiting') controller.abort(reason)
      // No virtual time passes.
      await ended
      expect(time.nowMs).toBe(0)
      expect(listenersOf(controller.signal)).toBe(0)
    }
    await locks.close()
  })
})

describe('all() in all()', () => {
  it('takes the locks of both in one order, and refuses a name that is in both', async () => {
    const { locks } = await open()
    const nest = (names: readonly string[]): never => locks.all(names) as never
    const set = await locks.all(['b', nest(['a', 'c'])]).acquire()
    expect(set.holds.map(({ resource }) => resource)).toEqual(['a', 'b', 'c'])
    expect([...set.fences.keys()]).toEqual(['a', 'b', 'c'])
    await set.release()
    expect(() => locks.all(['a', nest(['a', 'b'])])).toThrow('locks of different names')
    await locks.close()
  })
})
