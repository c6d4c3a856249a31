import type { Micros } from '../history/format.js'

export interface Span {
  readonly from: Micros
  readonly to: Micros
}

/** Stretches of time, merged and in order, that can be asked about quickly. */
export class Spans {
  readonly list: readonly Span[]

  constructor(spans: readonly Span[]) {
    const sorted = spans.filter((span) => span.to >= span.from).sort((a, b) => a.from - b.from)
    const merged: { from: Micros; to: Micros }[] = []
    for (const { from, to } of sorted) {
      const last = merged.at(-1)
      if (last !== undefined && from <= last.to) last.to = Math.max(last.to, to)
      else merged.push({ from, to })
    }
    this.list = merged
  }

  touches(from: Micros, to: Micros): boolean {
    const span = this.list[this.#firstEndingFrom(from)]
    return span !== undefined && span.from <= to
  }

  /** How much of the time from one moment to another is covered. */
  within(from: Micros, to: Micros): Micros {
    let sum = 0
    for (let index = this.#firstEndingFrom(from); index < this.list.length; index++) {
      const span = this.list[index]
      if (span === undefined || span.from >= to) break
      sum += Math.max(0, Math.min(span.to, to) - Math.max(span.from, from))
    }
    return sum
  }

  /** The index of the first one that ends at that moment or later. */
  #firstEndingFrom(moment: Micros): number {
    let low = 0
    let high = this.list.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.list[middle]?.to ?? 0) < moment) low = middle + 1
      else high = middle
    }
    return low
  }
}

export const NO_SPANS = new Spans([])
