import { describe, expect, it } from 'vitest'
import { AgentDates } from '../../src/backends/consul/agent-dates.js'

/** An agent whose clock shows this when the monotonic clock here is at 0. */
const AHEAD_MS = 1_800_000_000_123

function dateAt(wallMs: number): string {
  return new Date(Math.floor(wallMs / 1_000) * 1_000).toUTCString()
}

describe('what dates of answers tell', () => {
  it('is between its bounds, which only grow closer and never go back', () => {
    const dates = new AgentDates()
    let last = Number.NEGATIVE_INFINITY
    for (let now = 0; now < 20_000; now += 137) {
      dates.heard(dateAt(AHEAD_MS + now + 5), now, now + 10)
      const at = now + 10
      const [earliest, latest] = [dates.earliestMs(at), dates.latestMs(at)]
      expect(earliest).toBeLessThanOrEqual(AHEAD_MS + at)
      expect(latest).toBeGreaterThanOrEqual(AHEAD_MS + at)
      expect(earliest).toBeGreaterThanOrEqual(last)
      last = earliest
    }
    expect(dates.latestMs(20_000) - dates.earliestMs(20_000)).toBeLessThan(200)
  })

  it('is what the last answer says where the clock was set, either way', () => {
    for (const stepMs of [-3_600_000, 3_600_000]) {
      const dates = new AgentDates()
      dates.heard(dateAt(AHEAD_MS), 0, 10)
      dates.heard(dateAt(AHEAD_MS + stepMs), 20, 30)
      const now = AHEAD_MS + stepMs + 30
      expect(dates.earliestMs(30)).toBeLessThanOrEqual(now)
      expect(dates.latestMs(30)).toBeGreaterThanOrEqual(now)
      expect(dates.latestMs(30) - dates.earliestMs(30)).toBeLessThan(2_000)
    }
  })

  it('is nothing where there is no date', () => {
    const dates = new AgentDates()
    dates.heard(undefined, 0, 1)
    dates.heard('yesterday', 0, 1)
    expect(dates.heardAt).toBe(Number.NEGATIVE_INFINITY)
  })
})
