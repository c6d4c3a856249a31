import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { atDepth } from '../../../../test/support/depth.js'
import { checkHistory } from '../../src/check/check.js'
import type { Verdict } from '../../src/check/verdict.js'
import type { HistoryEvent, HistoryLine } from '../../src/history/format.js'
import { readHistory } from '../../src/history/reader.js'
import { seeded } from './generator.js'

const OPERATIONS = atDepth(200_000, 1_000_000)
const RESOURCES = 20
const CALLERS = 50

/** Two lines for each call: callers who take turns, with fences, leases and waits. */
function longHistory(operations = OPERATIONS): HistoryLine[] {
  const random = seeded(1)
  const events: HistoryEvent[] = []
  const clocks = new Float64Array(RESOURCES)
  for (let made = 0, fence = 1; made < operations; made += 2, fence++) {
    const resource = fence % RESOURCES
    const k = `resource-${resource}`
    const p = `w${Math.floor(random() * CALLERS)}.${resource}`
    const t = (clocks[resource] ?? 0) + 1 + Math.floor(random() * 50)
    const held = 1 + Math.floor(random() * 100)
    events.push(
      { t, p, f: 'acquire', type: 'invoke', k, v: { waitMs: 1_000 } },
      { t: t + 3, p, f: 'acquire', type: 'ok', k, v: { fence: String(fence), until: t + 1_000 } },
      { t: t + 3 + held, p, f: 'release', type: 'invoke', k },
      { t: t + 5 + held, p, f: 'release', type: 'ok', k },
    )
    clocks[resource] = t + 5 + held
  }
  const header: HistoryLine = {
    format: 'holdfast-history/1',
    promises: { fences: true, fair: true, abortWithinMicros: 100, servedWithinMicros: 10_000 },
  }
  return [header, ...events]
}

function timed(lines: readonly HistoryLine[]): [verdict: Verdict, seconds: number] {
  const began = performance.now()
  const verdict = checkHistory(lines)
  return [verdict, (performance.now() - began) / 1_000]
}

/** The least of several runs, because a machine that stalls in between says nothing about how long it takes. */
function leastSeconds(lines: readonly HistoryLine[], runs: number): number {
  return Math.min(...Array.from({ length: runs }, () => timed(lines)[1]))
}

describe(`${OPERATIONS} calls`, () => {
  test('are judged in about ten times the time of a tenth of them, all promises included', () => {
    const lines = longHistory(OPERATIONS)
    expect(lines).toHaveLength(2 * OPERATIONS + 1)
    const [verdict, first] = timed(lines)
    expect(verdict).toMatchObject({ valid: true, violations: [], undecided: [] })
    expect(verdict.counts).toEqual({
      events: 2 * OPERATIONS,
      acquired: OPERATIONS / 2,
      lost: 0,
      unknown: 0,
    })
    const seconds = Math.min(first, leastSeconds(lines, 2))
    const tenth = leastSeconds(longHistory(OPERATIONS / 10), 4)
    console.log(
      `${OPERATIONS} calls in ${lines.length} lines were judged in ${seconds.toFixed(2)} s, a tenth of them in ${tenth.toFixed(2)} s`,
    )
    // Something quadratic would take a hundred times as long.
    expect(seconds / tenth).toBeLessThan(40)
  })

  test('with one overlap among them are not', () => {
    const lines = longHistory()
    const at = lines.findLastIndex((line) => 'f' in line && line.f === 'acquire' && line.type === 'ok')
    const { k, t } = lines[at] as HistoryEvent
    lines.push(
      { t, p: 'thief.1', f: 'acquire', type: 'invoke', k },
      { t: t + 1, p: 'thief.1', f: 'acquire', type: 'ok', k, v: { fence: '9999999' } },
    )
    const { valid, violations } = checkHistory(lines)
    expect(valid).toBe(false)
    expect(violations).toHaveLength(1)
    expect(violations[0]).toMatchObject({ kind: 'overlap', resource: k })
  })

  test('can be read from a file', () => {
    const lines = longHistory()
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-history-'))
    try {
      const file = join(folder, 'w0.jsonl')
      const half = lines.length / 2
      const text = (some: readonly HistoryLine[]) => some.map((line) => `${JSON.stringify(line)}\n`).join('')
      writeFileSync(file, text(lines.slice(0, half)))
      const began = performance.now()
      const { events, malformed } = readHistory([file])
      const seconds = (performance.now() - began) / 1_000
      console.log(`${events.length} lines were read in ${seconds.toFixed(2)} s`)
      expect(events.length).toBeGreaterThan(OPERATIONS - 10)
      expect(malformed).toEqual([])
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
