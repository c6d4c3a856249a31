// @module-tag fencing
import { describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks, type Locks } from '../../src/client/client.js'

async function pair(): Promise<readonly [Locks, Locks]> {
  const store = new MemoryStore()
  return [await createLocks(memoryBackend(store)), await createLocks(memoryBackend(store))]
}

describe('after a hand-over between callers of one process', () => {
  it('inspect() and list() of that client show the fence of the present holder', async () => {
    const [locks, other] = await pair()
    const first = await locks.mutex('a').acquire()
    const waiting = locks.mutex('a').acquire()
    await first.release()
    const second = await waiting
    expect(second.fence).toBe(first.fence + 1n)
    expect((await locks.inspect('a')).holders.map(({ fence }) => fence)).toEqual([second.fence])
    for await (const view of locks.list()) expect(view.holders[0]?.fence).toBe(second.fence)
    // The store does not know of the hand-over, so another client shows the fence that the store granted.
    expect((await other.inspect('a')).holders.map(({ fence }) => fence)).toEqual([first.fence])
    await second.release()
    await locks.close()
    await other.close()
  })

  it('an operator can still evict the holder by the `ref` that inspect() shows', async () => {
    const [locks, other] = await pair()
    const first = await locks.mutex('a').acquire()
    const waiting = locks.mutex('a').acquire()
    await first.release()
    await waiting
    const [holder] = (await locks.inspect('a')).holders
    expect(await locks.evict('a', { reason: 'test', ref: holder?.ref ?? '' })).toHaveLength(1)
    expect((await other.inspect('a')).holders).toEqual([])
    await locks.close()
    await other.close()
  })
})

describe('two leaderships of one process, one after the other,', () => {
  it('have a `ref` and a fence of their own for every observer', async () => {
    const [locks, other] = await pair()
    const first = await locks.election('office').campaign()
    const waiting = locks.election('office').campaign()
    const before = await other.election('office').leader()
    expect(before?.fence).toBe(first.fence)
    await first.resign()
    const second = await waiting
    for (const client of [locks, other]) {
      const leader = await client.election('office').leader()
      expect(leader?.fence).toBe(second.fence)
      expect(leader?.ref).not.toBe(before?.ref)
    }
    await second.resign()
    await locks.close()
    await other.close()
  })

  it('are seen by observe()', async () => {
    const [locks, other] = await pair()
    const first = await locks.election('office').campaign()
    const waiting = locks.election('office').campaign()
    const fences: (bigint | null | undefined)[] = []
    let second = first
    for await (const leader of other.election('office').observe({ everyMs: 1 })) {
      fences.push(leader?.fence)
      if (fences.length === 2) break
      await first.resign()
      second = await waiting
    }
    expect(fences).toEqual([first.fence, second.fence])
    await second.resign()
    await locks.close()
    await other.close()
  })
})
