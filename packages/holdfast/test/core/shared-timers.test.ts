import { describe, expect, it } from 'vitest'
import { type RawTimer, SharedTimers } from '../../src/client/shared-timers.js'

/** Real timers as far as they matter here, moved by hand. */
class FakeTimers {
  nowMs = 0
  started = 0
  raw: { run: () => void; dueAt: number; isRef: boolean } | null = null

  start = (run: () => void, afterMs: number): RawTimer => {
    const raw = { run, dueAt: this.nowMs + afterMs, isRef: true }
    this.raw = raw
    this.started += 1
    return {
      ref: () => {
        raw.isRef = true
      },
      unref: () => {
        raw.isRef = false
      },
    }
  }

  advance(ms: number): void {
    const until = this.nowMs + ms
    while (this.raw !== null && this.raw.dueAt <= until) {
      const { run, dueAt } = this.raw
      this.raw = null
      this.nowMs = dueAt
      run()
    }
    this.nowMs = until
  }
}

function opened(afterMs = 1_000): { fake: FakeTimers; timers: SharedTimers; idle: () => number } {
  const fake = new FakeTimers()
  let idle = 0
  const timers = new SharedTimers(
    afterMs,
    () => fake.nowMs,
    fake.start,
    () => {
      idle += 1
    },
  )
  return { fake, timers, idle: () => idle }
}

describe('timers that share a real one', () => {
  it('fire each after its own time, in order', () => {
    const { fake, timers } = opened()
    const fired: string[] = []
    timers.start(() => fired.push(`a ${fake.nowMs}`), true)
    fake.advance(300)
    timers.start(() => fired.push(`b ${fake.nowMs}`), true)
    fake.advance(5_000)
    expect(fired).toEqual(['a 1000', 'b 1300'])
  })

  it('never fire once they are cancelled, and cost one real timer for many', () => {
    const { fake, timers, idle } = opened()
    for (let request = 0; request < 500; request += 1) {
      const timer = timers.start(() => expect.unreachable(), true)
      fake.advance(1)
      timer.cancel()
      timer.cancel()
    }
    fake.advance(5_000)
    expect(fake.started).toBe(1)
    expect(idle()).toBe(1)
  })

  it('keep the process only while somebody waits who needs it', () => {
    const { fake, timers } = opened()
    expect(fake.raw?.isRef).toBe(false)
    timers.start(() => {}, false)
    expect(fake.raw?.isRef).toBe(false)
    const first = timers.start(() => {}, true)
    const second = timers.start(() => {}, true)
    first.cancel()
    expect(fake.raw?.isRef).toBe(true)
    second.cancel()
    expect(fake.raw?.isRef).toBe(false)
  })

  it('stay armed for those who are left, and keep the process for them', () => {
    const { fake, timers, idle } = opened()
    timers.start(() => {}, false)
    fake.advance(600)
    const fired: number[] = []
    timers.start(() => fired.push(fake.nowMs), true)
    fake.advance(400)
    expect(idle()).toBe(0)
    expect(fake.raw).toMatchObject({ dueAt: 1_600, isRef: true })
    fake.advance(600)
    expect(fired).toEqual([1_600])
    expect(idle()).toBe(1)
  })

  it('let the one that fires start another', () => {
    const { fake, timers } = opened()
    const fired: number[] = []
    timers.start(() => {
      fired.push(fake.nowMs)
    }, true)
    timers.start(() => {
      fired.push(fake.nowMs)
    }, true)
    fake.advance(1_000)
    expect(fired).toEqual([1_000, 1_000])
  })
})
