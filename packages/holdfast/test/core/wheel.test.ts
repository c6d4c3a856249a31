import { describe, expect, it } from 'vitest'
import { WHEEL_GRAIN_MS, Wheel, type WheelItem } from '../../src/core/wheel.js'
import { VirtualRuntime } from '../../src/testing/virtual-time.js'

class Item implements WheelItem {
  wheelSlot: number | null = null
}

describe('the wheel', () => {
  it('has one timer however much it carries, and fires on the early side', async () => {
    const runtime = new VirtualRuntime()
    const fired: number[] = []
    const wheel = new Wheel<Item>(runtime, (due) => fired.push(...due.map(() => runtime.time.nowMs)))
    for (let at = 1; at <= 500; at++) wheel.put(new Item(), 100 + at)
    expect(runtime.time.pending).toBe(1)
    await runtime.time.advance(1_000)
    expect(fired).toHaveLength(500)
    for (const [index, at] of fired.entries()) {
      // The timer takes whole milliseconds, so it may be up to one late on a slot that is up to one grain early.
      expect(at).toBeLessThanOrEqual(101 + index + 1)
      expect(at).toBeGreaterThan(101 + index - WHEEL_GRAIN_MS - 1)
    }
    expect(runtime.time.pending).toBe(0)
  })

  it('moves and removes', async () => {
    const runtime = new VirtualRuntime()
    const fired: Item[] = []
    const wheel = new Wheel<Item>(runtime, (due) => fired.push(...due))
    const [moved, removed] = [new Item(), new Item()]
    wheel.put(moved, 50)
    wheel.put(removed, 50)
    wheel.put(moved, 400)
    wheel.remove(removed)
    await runtime.time.advance(200)
    expect(fired).toEqual([])
    await runtime.time.advance(300)
    expect(fired).toEqual([moved])
    wheel.put(moved, 900)
    wheel.stop()
    await runtime.time.advance(5_000)
    expect(fired).toEqual([moved])
  })
})
