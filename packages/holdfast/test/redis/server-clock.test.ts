import { describe, expect, test } from 'vitest'
import { ServerClock } from '../../src/backends/redis/server-clock.js'

const SERVER_US = 1_900_000_000_123_456

/** Three clocks that a test moves, of which the server's is asked with an answer that takes `tripMs`. */
function clocks(tripMs = 2) {
  const at = { monotonicMs: 500, wallMs: 1_000_000, serverUs: SERVER_US }
  const pass = (ms: number): void => {
    at.monotonicMs += ms
    at.wallMs += ms
    at.serverUs += ms * 1_000
  }
  const clock = new ServerClock(
    () => at.monotonicMs,
    () => at.wallMs,
  )
  let asked = 0
  const look = async (answer?: unknown): Promise<void> => {
    await clock.look(async () => {
      asked += 1
      const { serverUs } = at
      pass(tripMs)
      return answer ?? [String(Math.floor(serverUs / 1_000_000)), String(serverUs % 1_000_000)]
    })
  }
  return { at, pass, clock, look, asked: () => asked }
}

describe('the clock of the server, as a client tells it', () => {
  test('is not known before it was asked', () => {
    expect(clocks().clock.micros()).toBe(null)
  })

  test('goes on, never ahead of the server, and behind it by what the answer took', async () => {
    const { at, pass, clock, look } = clocks()
    await look()
    for (const ms of [0, 0.5, 10, 900]) {
      pass(ms)
      const behindUs = at.serverUs - (clock.micros() ?? Number.NaN)
      expect(behindUs).toBeGreaterThanOrEqual(0)
      expect(behindUs).toBeLessThanOrEqual(2_001)
    }
  })

  test('is asked again after a while', async () => {
    const { pass, clock, look } = clocks()
    await look()
    pass(1_001)
    expect(clock.micros()).toBe(null)
    await look()
    expect(clock.micros()).not.toBe(null)
  })

  test('is not known by an answer that took long', async () => {
    const { clock, look } = clocks(26)
    await look()
    expect(clock.micros()).toBe(null)
  })

  test.each([3_600_000, 26, -26])(
    'is not known after a sleep, or when a clock was set: %i ms',
    async (ms) => {
      const { at, clock, look } = clocks()
      await look()
      at.wallMs += ms
      expect(clock.micros()).toBe(null)
    },
  )

  test.each([[['x', '1']], [['1']], ['OK'], [null]])(
    'is not known by an answer that is none: %j',
    async (answer) => {
      const { clock, look } = clocks()
      await look()
      await look(answer ?? 'null')
      expect(clock.micros()).toBe(null)
    },
  )

  test('is not known when nobody answers, and nothing is thrown', async () => {
    const { clock, look } = clocks()
    await look()
    await clock.look(() => Promise.reject(new Error('gone')))
    expect(clock.micros()).toBe(null)
  })

  test('is asked once at a time', async () => {
    const { look, asked } = clocks()
    await Promise.all([look(), look(), look()])
    expect(asked()).toBe(1)
  })
})
