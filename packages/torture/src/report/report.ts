import { writeFile } from 'node:fs/promises'
import type { Guarantees } from 'holdfast'
import type { Verdict } from '../check/verdict.js'
import type { HistoryEvent, ResourceNote } from '../history/format.js'
import type { Headline } from './data.js'
import { pageOf } from './html.js'
import { modelOf } from './model.js'

export interface ReportInput {
  readonly title: string
  /** The exact command that repeats the run. */
  readonly command: string
  readonly store: string
  readonly recipe: string
  readonly seed: string | number
  /** How long the run was asked to take. */
  readonly seconds: number
  /** Such as `holdfast 0.1.0`. */
  readonly generatedBy: string
  /** Of the recipe. A history from elsewhere may have none. */
  readonly guarantees?: Partial<Guarantees>
  /** All writers' events, in the order of time. */
  readonly events: readonly HistoryEvent[]
  readonly verdict: Verdict
  /** What stands on top instead of what the verdict says, where violations were wanted, as in the lab. */
  readonly headline?: Headline
  /** What each name is, as in the headers of the history. */
  readonly resources?: Readonly<Record<string, ResourceNote>>
  /** What else a reader must know, such as what was not run. */
  readonly notes?: readonly string[]
  /** Latencies that were measured elsewhere; without them, those of `acquire` are taken from the events. */
  readonly latency?: readonly { readonly label: string; readonly ms: number }[]
}

/** One HTML file that needs nothing else: it loads nothing, sends nothing, and works from a disk. */
export function renderReport(input: ReportInput): string {
  return pageOf(modelOf(input))
}

export async function writeReport(file: string, input: ReportInput): Promise<void> {
  await writeFile(file, renderReport(input), 'utf8')
}
