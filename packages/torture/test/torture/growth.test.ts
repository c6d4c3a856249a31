// @module-tag limits
import { describe, expect, test } from 'vitest'
import { growthOf } from '../../src/torture/growth.js'
import type { HealthSample, WorkerHealth } from '../../src/torture/health.js'

const MEGABYTE = 2 ** 20

function sample(acquired: number, heapBytes: number, more: Partial<HealthSample> = {}): HealthSample {
  return { acquired, heapBytes, signalListeners: 0, processListeners: 15, resources: { Timeout: 2 }, ...more }
}

/** A worker whose heap has these sizes, in megabytes, after each thousand acquisitions. */
function worker(heaps: readonly number[], idle: Partial<HealthSample> = {}): WorkerHealth {
  const working = heaps.map((heap, index) => sample((index + 1) * 1_000, heap * MEGABYTE))
  const last = working.at(-1) ?? sample(0, 0)
  return { first: sample(0, 5 * MEGABYTE), working, idle: { ...last, ...idle }, closed: last }
}

const messagesOf = (health: WorkerHealth, seconds = 60): string[] =>
  growthOf('w1', health, seconds).map(({ message }) => message)

describe('the heap of a worker', () => {
  test('that grows with its acquisitions is reported', () => {
    expect(messagesOf(worker([10, 11, 12, 13, 14]))).toEqual([expect.stringMatching(/heap grew by 4096 KiB/)])
  })

  test('that fills caches first, or stays flat, is not', () => {
    expect(messagesOf(worker([10, 14, 14, 14, 14]))).toEqual([])
    expect(messagesOf(worker([10, 10.5, 10, 10.4, 10.1]))).toEqual([])
  })

  test('is not judged in a short run', () => {
    expect(messagesOf(worker([10, 11, 12, 13, 14]), 59)).toEqual([])
  })
})

describe('what a worker keeps', () => {
  test('a listener on a signal of a caller is reported', () => {
    const [message] = messagesOf(worker([10], { signalListeners: 1 }), 8)
    expect(message).toMatch(/1 listeners are left on signals .* after 1000 acquisitions/)
  })

  test('listeners on the process, timers and sockets may be a few more, and no more than that', () => {
    const kept = (count: number): string[] =>
      messagesOf(worker([10], { processListeners: 15 + count, resources: { Timeout: 2 + count } }), 8)
    expect(kept(12)).toEqual([])
    expect(kept(13)).toHaveLength(2)
  })

  test('nothing is active any more when the client is closed', () => {
    const health = worker([10])
    const closed = { ...health.closed, resources: { Timeout: 2, TCPSocketWrap: 1 } }
    expect(messagesOf({ ...health, closed }, 8)).toEqual([
      expect.stringMatching(/1 of TCPSocketWrap .* closed/),
    ])
  })
})
