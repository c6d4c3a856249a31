import { type HistoryEvent, type Micros, processOf } from '../history/format.js'
import type { InjectedFault } from './nemesis.js'
import type { FaultCount, NameSummary, Percentiles } from './outcome.js'

interface Counting {
  acquired: number
  refused: number
  lost: number
  unknown: number
  readonly waits: number[]
}

/** Counts what became of every name, from a history in order of time. */
export function summariseNames(events: readonly HistoryEvent[], names: readonly string[]): NameSummary[] {
  const countings = new Map<string, Counting>(
    names.map((name) => [name, { acquired: 0, refused: 0, lost: 0, unknown: 0, waits: [] }]),
  )
  const asked = new Map<string, Micros>()
  for (const { f, type, k, p, t } of events) {
    const counting = countings.get(k)
    if (counting === undefined) continue
    if (f === 'lost') counting.lost += 1
    if (f !== 'acquire') continue
    const call = `${p} ${k}`
    if (type === 'invoke') asked.set(call, t)
    if (type === 'fail') counting.refused += 1
    if (type === 'info') counting.unknown += 1
    if (type !== 'ok') continue
    counting.acquired += 1
    counting.waits.push(t - (asked.get(call) ?? t))
  }
  return names.map((name) => {
    const { waits, ...counts } = countings.get(name) as Counting
    return { name, ...counts, waitedMs: percentilesOf(waits) }
  })
}

function percentilesOf(micros: number[]): Percentiles | null {
  if (micros.length === 0) return null
  const sorted = micros.sort((a, b) => a - b)
  const at = (share: number): number =>
    (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0) / 1_000
  return { p50: at(0.5), p99: at(0.99), max: at(1) }
}

export function countFaults(injected: readonly InjectedFault[]): FaultCount[] {
  const counts = new Map<InjectedFault['name'], number>()
  for (const { name } of injected) counts.set(name, (counts.get(name) ?? 0) + 1)
  return [...counts].map(([name, count]) => ({ name, count })).sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** When each process died, from the notes of whoever killed it. */
export function deathsOf(events: readonly HistoryEvent[]): (p: string) => Micros | null {
  const deaths = new Map(events.filter(({ f }) => f === 'death').map(({ p, t }) => [p, t]))
  return (p) => deaths.get(processOf(p)) ?? null
}
