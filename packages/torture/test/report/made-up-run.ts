import type { Violation } from '../../src/check/verdict.js'
import type { HistoryEvent } from '../../src/history/format.js'
import type { ReportInput } from '../../src/report/report.js'

/** How much there shall be of everything in a made-up run. */
export interface Shape {
  readonly resources: readonly string[]
  readonly processes: number
  readonly callersEach: number
  readonly roundsEach: number
  readonly faults: number
  readonly violations: number
}

const START = 5_000_000_000

/**
 * A history as callers of locks could have written it, the same one for the same shape: on each resource the callers
 * come one after the other, the second resource is shared, and every fifteenth hold is lost. Only the page is tested
 * with it, so its violations are stated and not found.
 */
export function madeUpRun(shape: Shape): ReportInput {
  const random = randomFrom(7)
  const events: HistoryEvent[] = []
  const violations: Violation[] = []
  let lost = 0
  let acquired = 0
  let end = START
  shape.resources.forEach((k, resource) => {
    const mode = resource === 1 ? 'shared' : 'exclusive'
    let t = START
    let fence = 1
    const freeAt = new Map<string, number>()
    for (let round = 0; round < shape.roundsEach; round += 1) {
      for (let caller = 0; caller < shape.processes * shape.callersEach; caller += 1) {
        const p = `w${caller % shape.processes}.${Math.floor(caller / shape.processes)}#1`
        const granted = t + 200 + Math.floor(random() * 900)
        const held = 1_500 + Math.floor(random() * 6_000)
        const asked = Math.max(freeAt.get(p) ?? START, granted - 300 - Math.floor(random() ** 4 * 90_000))
        events.push({ t: asked, p, k, f: 'acquire', type: 'invoke', v: { mode, waitMs: 5_000 } })
        events.push({ t: granted, p, k, f: 'acquire', type: 'ok', v: { fence: String(fence * 1024) } })
        const over = granted + held
        acquired += 1
        if (acquired % 15 === 0) {
          events.push({ t: over, p, k, f: 'lost', type: 'note', v: { error: 'expired' } })
          lost += 1
        } else {
          events.push({ t: over, p, k, f: 'release', type: 'invoke' })
          events.push({ t: over + 150, p, k, f: 'release', type: acquired % 40 === 0 ? 'info' : 'ok' })
        }
        freeAt.set(p, over + 151)
        fence += 1
        t = mode === 'shared' ? granted + Math.floor(held / 3) : over + 20
        end = Math.max(end, over + 150)
        if (violations.length < shape.violations && acquired % 11 === 5) {
          violations.push(overlapOf(k, p, granted, over, violations.length))
        }
      }
    }
  })
  events.push(...faultsOf(shape.faults, end, random))
  events.sort((a, b) => a.t - b.t)
  return {
    title: 'torture: redis line',
    command: "npx holdfast torture redis --recipe line --seed 42 --seconds 20 --faults 'kill,pause,cut'",
    store: 'redis',
    recipe: 'line',
    seed: 42,
    seconds: 20,
    generatedBy: 'holdfast 0.1.0',
    guarantees: {
      keptBy: 'lease',
      safety: 'single-node',
      fencing: 'strict',
      fair: true,
      limitMax: 1_000_000,
    },
    events,
    verdict: {
      valid: violations.every((violation) => violation.admitted !== undefined),
      violations,
      undecided: [],
      counts: {
        events: events.length,
        acquired,
        lost,
        unknown: events.filter((e) => e.type === 'info').length,
      },
    },
    resources: {
      [shape.resources[0] ?? '']: { kind: 'mutex' },
      [shape.resources[1] ?? '']: { kind: 'semaphore', limit: 3 },
    },
  }
}

function overlapOf(k: string, p: string, from: number, to: number, index: number): Violation {
  return {
    kind: index % 3 === 1 ? 'fence-order' : 'overlap',
    resource: k,
    at: from + 700,
    message: `${p} held ${k} while another held it too.`,
    involved: [{ p, from, to }],
    ...(index % 3 === 2 ? { admitted: 'the recipe is best-effort, and the server lost its data' } : {}),
  }
}

function faultsOf(count: number, end: number, random: () => number): HistoryEvent[] {
  const names = ['kill', 'pause', 'cut', 'server-kill', 'delay', 'drop-replies']
  const events: HistoryEvent[] = []
  const length = (end - START) / Math.max(1, count)
  for (let index = 0; index < count; index += 1) {
    const v = {
      fault: names[index % names.length] ?? '',
      target: index % 2 === 0 ? `w${index % 3}` : 'proxy:0',
    }
    const t = START + Math.floor(length * (index + 0.2))
    events.push({ t, p: 'nemesis', k: '', f: 'fault-begin', type: 'note', v })
    const over = t + Math.floor(length * (0.2 + random() * 1.1))
    if (over < end) events.push({ t: over, p: 'nemesis', k: '', f: 'fault-end', type: 'note', v })
    if (v.fault === 'pause')
      events.push({ t: over, p: v.target, k: '', f: 'stall', type: 'note', v: { forMicros: over - t } })
  }
  return events
}

function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
