import type { HistoryEvent, Micros } from '../history/format.js'
import type { SeriesData } from './data.js'
import { isTimeout, type Lane } from './spans.js'

/** As many stretches as a chart has room for. */
const BUCKETS_MAX = 120

/** A stretch is a round length, so that what a chart says is per something people can think of. */
export function bucketFor(span: Micros, most = BUCKETS_MAX): Micros {
  let bucket = 1_000
  const steps = [2, 2.5, 2]
  for (let index = 0; span / bucket > most; index += 1) bucket *= steps[index % steps.length] ?? 2
  return bucket
}

/** The value below which a share of the sorted values lies, by the nearest rank. */
export function percentile(sorted: readonly number[], share: number): number | null {
  if (sorted.length === 0) return null
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? null
}

/** How long acquisitions took, by the time of their answer, and how often something ended badly. */
export function seriesOf(
  events: readonly HistoryEvent[],
  lanes: readonly Lane[],
  from: Micros,
  to: Micros,
): SeriesData {
  const bucket = bucketFor(to - from)
  const length = Math.max(1, Math.floor((to - from) / bucket) + 1)
  const place = (t: Micros): number => Math.min(length - 1, Math.floor((t - from) / bucket))
  const took: number[][] = Array.from({ length }, () => [])
  for (const lane of lanes) {
    for (const wait of lane.waits) {
      if (wait.end === 'granted') took[place(wait.to)]?.push(wait.to - wait.from)
    }
  }
  const lost = took.map(() => 0)
  const timedOut = took.map(() => 0)
  const unknown = took.map(() => 0)
  for (const event of events) {
    const counted =
      event.f === 'lost' ? lost : event.type === 'info' ? unknown : timesOut(event) ? timedOut : null
    const at = place(event.t)
    if (counted !== null) counted[at] = (counted[at] ?? 0) + 1
  }
  for (const values of took) values.sort((a, b) => a - b)
  return {
    bucket,
    count: took.map((values) => values.length),
    p50: took.map((values) => percentile(values, 0.5)),
    p99: took.map((values) => percentile(values, 0.99)),
    max: took.map((values) => values.at(-1) ?? null),
    lost,
    timedOut,
    unknown,
  }
}

function timesOut(event: HistoryEvent): boolean {
  return event.type === 'fail' && event.f === 'acquire' && isTimeout(event.v?.error)
}
