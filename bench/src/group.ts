/** What all groups of benchmarks have in common. */

import type { Chart } from './chart.js'
import type { Row } from './report.js'

export interface Findings {
  /** Groups with the same title share a table. */
  readonly title: string
  readonly rows: readonly Row[]
  readonly charts?: readonly Chart[]
}

export interface Bench {
  /** Fewer operations and rounds. */
  readonly quick: boolean
  /** For how long a group that watches something over time does so. */
  readonly minutes: number
  /** An empty folder for whatever a group writes; it is removed at the end. */
  readonly folder: string
  /** Shows how far the group is. Cheap, so it may be called often. */
  say(text: string): void
}

export interface Group {
  readonly name: string
  readonly about: string
  readonly run: (bench: Bench) => Promise<Findings>
}

/** For `rotate` and `interleave`, which tell how many rounds are done. */
export function sayRound(bench: Bench): (round: number, rounds: number) => void {
  return (round, rounds) => bench.say(`round ${round} of ${rounds}`)
}

export function perSecond(rate: number): string {
  return `${Math.round(rate).toLocaleString('en')}/s`
}

export function milliseconds(value: number): string {
  return `${value.toFixed(value < 10 ? 2 : 1)} ms`
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms)
  })
}
